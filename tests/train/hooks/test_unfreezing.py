"""Gradual unfreezing.

The grid compares it with a plain loop, where frozen parameters need no gradient.
"""

import pytest

from clozeline.train.checkpoint.zero_partitions import fragments
from tests.matrices import mark_slow_after
from tests.train.synthetic import NO_DROPOUT, build, tiny, train_steps

CASE = {"every": 2}
"""Options of a hook in the contract tests."""


def depth(name):
    """Of a parameter of the tiny encoder, by its name."""
    if name.startswith(("heads", "family.stack.norm")):
        return 0
    return 2 if "layers.0" in name else 1 if "layers.1" in name else 3


def changed_depths(world, config):
    """The depths of which this rank saw a weight change, at each of eight steps."""
    engine = build(config, world)
    found = []

    for step in range(1, 9):
        before = {
            part.name: part.tensors["weight"].clone() for part in fragments(engine, owned=False)
        }
        train_steps(engine, step, step)
        parts = fragments(engine, owned=False)
        found.append(
            {
                depth(part.name)
                for part in parts
                if not before[part.name].equal(part.tensors["weight"])
            }
        )

    engine.close()
    return found


@pytest.mark.parametrize("stage", mark_slow_after(1, [3, 0]))
def test_one_more_depth_is_trained_every_few_steps(two_ranks, stage):
    """Two layers: the head learns from step 1, the layers from 3 and 5, the tables from 7 on."""
    hooks = [{"name": "unfreezing", "every": 2}]
    config = tiny(
        **NO_DROPOUT, schedule__name="constant", zero={"stage": stage, "persistent": 0}, hooks=hooks
    )
    for found in two_ranks.run(changed_depths, config):
        assert found == [set(range(1 + step // 2)) for step in range(8)]
