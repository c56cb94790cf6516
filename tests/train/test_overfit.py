"""A few rows are learnt by heart, by one model of each architecture: nothing holds the loss up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed import RankPool
from tests.train.test_objectives_train import CASES, OTHERS, Case, configured, learn

ROWS, STEPS, BAR = 32, 100, 0.1
"""Rows of the set, all of which are in each batch; updates; nats a label."""
KNOWN = {
    "encoder": OTHERS["masked_lm"],
    "decoder": OTHERS["causal_lm"],
    "encoder_decoder": OTHERS["span_corruption"],
    "two streams": CASES["plm"],
}


SLOW = [pytest.param(case, id=name, marks=pytest.mark.slow) for name, case in KNOWN.items() if name != "decoder"]


@pytest.mark.parametrize("case", [pytest.param(KNOWN["decoder"], id="decoder"), *SLOW])
def test_rows_are_learnt_by_heart(one_rank: RankPool, tmp_path: Path, case: Case) -> None:
    whole = [f"data.global_batch={ROWS}", f"data.micro_batch={ROWS}", f"steps={STEPS}", f"schedule.steps={STEPS}"]
    config = configured(tmp_path, case, rows=ROWS)
    (records,) = one_rank.run(learn, config, str(tmp_path / "run"), [*whole, "evaluate.every=null"])
    losses = [record["loss"] for record in records]
    assert (len(losses), records[-1]["samples"]) == (STEPS, ROWS * STEPS)
    assert losses[0] > 20 * BAR
    assert losses[-1] < BAR
