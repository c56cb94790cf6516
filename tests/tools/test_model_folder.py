"""Files of a folder with a model."""

import stat

import torch
from safetensors.torch import load_file

from clozeline.tools.model_folder import write_tensors


def test_tensors_that_share_memory_are_written_apart(tmp_path):
    whole = torch.arange(6.0).view(2, 3)
    path = tmp_path / "deep" / "model.safetensors"
    write_tensors(path, {"a": whole[:1], "b": whole.T})
    found = load_file(path)

    assert torch.equal(found["b"], whole.T)
    assert path.stat().st_size < 400
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
