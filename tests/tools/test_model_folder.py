"""Folders with a model: new ones alone."""

import stat

import pytest
import torch
from safetensors.torch import load_file

from clozeline.errors import ConfigurationError
from clozeline.tools.model_folder import require_empty, write_tensors


def test_tensors_that_share_memory_are_written_apart(tmp_path):
    whole = torch.arange(6.0).view(2, 3)
    path = tmp_path / "deep" / "model.safetensors"
    write_tensors(path, {"a": whole[:1], "b": whole.T})
    found = load_file(path)

    assert torch.equal(found["b"], whole.T)
    assert path.stat().st_size < 400
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_model_is_written_into_a_new_or_empty_folder(tmp_path):
    require_empty(tmp_path)
    require_empty(tmp_path / "new")
    (tmp_path / "file").touch()
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(ConfigurationError, match="expected a new or empty folder"):
            require_empty(taken)
