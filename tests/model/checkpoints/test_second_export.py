"""What was read and written once is written again with the same bytes, for every type."""

import json

import pytest

from clozeline.model.checkpoints import export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import TYPES, export_to, saved


@pytest.mark.parametrize("model_type", TYPES)
def test_a_second_export_has_the_bytes_of_the_first(model_type, tmp_path):
    saved(tmp_path / "in", model_type)
    first = export_checkpoint(read_checkpoint(tmp_path / "in"))
    second = export_checkpoint(read_checkpoint(export_to(tmp_path / "out", first)))
    assert json.dumps(first.config) == json.dumps(second.config)
    export_to(tmp_path / "again", second)
    name = "model.safetensors"
    assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
