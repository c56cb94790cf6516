"""The moving average of the weights, which the grid compares with a plain loop."""

from contextlib import suppress

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.train.checkpoint.zero_partitions import fragments
from clozeline.train.evaluate import averages_as_weights
from tests.train.masked_set import write_config
from tests.train.runs import evaluations, logged, start
from tests.train.synthetic import NO_DROPOUT, RandomSource, build, resume, save, tiny, train_steps

DECAY = 0.34


def average(decay):
    return {"name": "average", "decay": decay}


def saved(world, config, folder):
    engine = build(config, world, seed=2)
    train_steps(engine, 1, 2)
    save(engine, folder, 2)
    engine.close()


def states_after(world, config, source):
    engine = build(config, world)
    resume(engine, source)
    train_steps(engine, 3, 3)
    found = sorted(fragments(engine, owned=False)[0].tensors)
    engine.close()
    return found


def test_an_average_may_begin_or_end_in_the_middle(one_rank, tmp_path):
    """A run without it keeps no average that would grow old."""
    none = tiny(**NO_DROPOUT)
    some = tiny(**NO_DROPOUT, hooks=[average(0.999)])
    adam = ["exp_avg", "exp_avg_sq", "weight"]
    for config, later, states in ((none, some, ["average", *adam]), (some, none, adam)):
        one_rank.run(saved, config, tmp_path / str(len(states)))
        assert one_rank.run(states_after, later, tmp_path / str(len(states))) == [states]


def evaluated(world, config, look):
    """Eight steps; after the fifth, a forward pass with the averages that fails, or none."""
    engine = build(config, world)
    found = train_steps(engine, 1, 5)

    if look:
        engine.train(False)
        batch = RandomSource(config, world, 0).next_step()[0]
        with suppress(RuntimeError), torch.no_grad(), averages_as_weights(engine):
            engine.losses(engine.inputs(batch, step=0))
            raise RuntimeError("an evaluation fails")
        engine.train(True)

    found += train_steps(engine, 6, 8)
    engine.close()
    return found


def test_a_pass_with_the_averages_leaves_training_as_it_was(two_ranks):
    """Stage 3 may keep what a forward pass gathered: those would be averages, on which training
    would go on."""
    config = tiny(**NO_DROPOUT, zero={"stage": 3, "persistent": 0}, hooks=[average(DECAY)])
    assert two_ranks.run(evaluated, config, True) == two_ranks.run(evaluated, config, False)


def test_an_evaluation_is_one_of_the_average(one_rank, tmp_path, shards):
    config = write_config(tmp_path / "run.yaml", shards, tmp_path, steps=3)
    outputs = [tmp_path / "a", tmp_path / "b"]
    for output, hooks in zip(outputs, ("[]", "[{name: average, decay: 0.9}]"), strict=True):
        assert one_rank.run(start, config, [f"output={output}", f"hooks={hooks}"]) == [(0, "")]

    assert logged(outputs[0]) == logged(outputs[1])
    assert evaluations(outputs[0])[-1]["loss"] != evaluations(outputs[1])[-1]["loss"]


@pytest.mark.parametrize("decay", [0.0, 1.0])
def test_a_decay_of_all_or_nothing_is_refused(decay):
    with pytest.raises(ConfigurationError, match=r"decay: "):
        tiny(hooks=[average(decay)])
