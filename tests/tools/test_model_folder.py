import stat
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from clozeline.errors import ConfigurationError
from clozeline.tools.model_folder import require_empty, write_tensors


def test_only_new_and_empty_places(tmp_path: Path) -> None:
    require_empty(tmp_path)
    require_empty(tmp_path / "new")
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(ConfigurationError, match="new or empty"):
            require_empty(path)


def test_tensors_that_share_memory_are_written_apart(tmp_path: Path) -> None:
    whole = torch.arange(6.0).view(2, 3)
    path = tmp_path / "deep" / "model.safetensors"
    write_tensors(path, {"a": whole[:1], "b": whole.T})
    found = load_file(path)
    assert torch.equal(found["b"], whole.T)
    assert path.stat().st_size < 400
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
