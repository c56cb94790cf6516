import pytest

from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from tests.model.checkpoints.published import difference, saved


@pytest.mark.parametrize("fixed", [True, False], ids=["sinusoids", "learned"])
def test_both_kinds_of_places_are_a_table(tmp_path, fixed):
    theirs = saved(tmp_path, "distilbert", sinusoidal_pos_embds=fixed)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5
