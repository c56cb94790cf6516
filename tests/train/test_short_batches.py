"""The last batch of a pass over the data: few real rows, and the others are filler."""

import pytest

from clozeline.train.data.global_batch import next_global_batch
from clozeline.train.distributed.stopping import StopRequest
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.runs import events, start, steps
from tests.train.synthetic import RandomSource, build, tiny

BATCH = 16


def norms(world, config, weights):
    """The gradient norm of one batch, with each of the weights."""
    engine = build(config, world)
    batch = next_global_batch(RandomSource(config, world), engine.heads, world, StopRequest())
    found = [
        engine.step(batch.micro_batches, batch.counts, 1, 0.0, weight=weight).gradient_norm
        for weight in weights
    ]
    engine.close()
    return found


@pytest.mark.parametrize("stage", [0, 3])
def test_the_weight_of_a_batch_is_a_factor_of_its_gradient(two_ranks, stage):
    full, half, nearly_none = two_ranks.run(
        norms,
        tiny(zero__stage=stage),
        [1.0, 0.5, 0.125],
    )[0]
    assert half == pytest.approx(full / 2)
    assert nearly_none == pytest.approx(full / 8)


def run_of(one_rank, folder, rows, **changes):
    sets = write_masked_sets(folder / "sets", rows=rows, heldout=8)
    changes = {"data__global_batch": BATCH, "data__micro_batch": 4, "data__lanes": BATCH, **changes}
    config = write_config(folder / "train.yaml", sets, folder / "run", **changes)
    assert one_rank.run(start, config, []) == [(0, "")]
    return folder / "run"


def test_a_row_weighs_at_most_twice_as_much_as_in_a_full_batch(one_rank, tmp_path):
    """One row of 16: its gradient is an eighth of that of a mean over it alone."""
    unclipped = {
        "steps": 2,
        "schedule__steps": 2,
        "optimizer__learning_rate": 1e-30,
        "model__dropout": {},
    }

    short = run_of(one_rank, tmp_path / "short", BATCH + 1, **unclipped)
    # a pass of one row alone: 16 rows of batch 1, of which the seventeenth is read in the same
    # order
    alone = run_of(
        one_rank,
        tmp_path / "alone",
        BATCH + 1,
        data__global_batch=1,
        data__micro_batch=1,
        data__lanes=1,
        **{**unclipped, "steps": 17, "schedule__steps": 17},
    )

    last = steps(short)[1]
    same = [one for one in steps(alone) if one["loss"] == pytest.approx(last["loss"], rel=1e-6)]

    assert [one["gradient_norm"] for one in same] == [
        pytest.approx(8 * last["gradient_norm"], rel=1e-4)
    ]


def test_a_short_batch_is_no_alarm(one_rank, tmp_path):
    """33 rows in batches of 16: each third step has one row, whose loss is far from a mean of
    16."""
    run = run_of(one_rank, tmp_path, 2 * BATCH + 1, steps=60, schedule__steps=60, log__spike=4.0)
    alarms = [event["step"] for event in events(run, "spike")]
    assert not [step for step in alarms if step % 3 == 0]
