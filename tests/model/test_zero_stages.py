"""A sharded engine computes what an unsharded one does, for every family, tied and shared weights
included."""

import json

import pytest

from tests.distributed import run_ranks
from tests.matrices import mark_slow_but
from tests.model.zero_ranks import CASES, print_losses

USUAL = ["encoder", "encoder_decoder", "awd_lstm"]


@pytest.mark.parametrize("case", mark_slow_but(USUAL, CASES))
def test_stage_three_trains_like_stage_zero(tmp_path, case):
    finished = run_ranks(1, print_losses, case, folder=tmp_path)

    assert finished.codes == [0], finished.errors
    assert "cannot be detected" not in finished.errors[0], (
        "stage 3 met a module input or output that it cannot look into"
    )

    straight, sharded = json.loads(finished.outputs[0].splitlines()[-1])

    assert straight == pytest.approx(sharded, rel=1e-5)
    assert straight[2] == 0, "the micro-batch without labels"
    assert all(loss > 0 for step, loss in enumerate(straight) if step != 2)
