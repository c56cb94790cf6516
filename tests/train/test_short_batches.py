"""The last batch of a pass over the data: few real rows, and the others are filler."""

import pytest

from clozeline.train.data.global_batch import next_global_batch
from clozeline.train.distributed.stopping import StopRequest
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.runs import events, start
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


def test_a_short_batch_is_no_alarm(one_rank, tmp_path):
    """33 rows in batches of 16: each third step has one row, whose loss is far from a mean of
    16."""
    run = run_of(one_rank, tmp_path, 2 * BATCH + 1, steps=60, schedule__steps=60, log__spike=4.0)
    alarms = [event["step"] for event in events(run, "spike")]
    assert not [step for step in alarms if step % 3 == 0]
