"""The moving average of the weights: against a plain loop, in the same bits at every stage, world size and resume."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.train.checkpoint.zero_partitions import fragments
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.evaluate import averages_as_weights
from tests.distributed import RankPool
from tests.train.masked_set import write_config
from tests.train.runs import evaluations, logged, start
from tests.train.synthetic import NO_DROPOUT, RandomSource, build, resume, save, tiny, train_steps

DECAY = 0.34
"""Above the decays of the first three updates, 2/11, 3/12 and 4/13, and below those of the others."""
SKIPPED = 3


def average(decay: float) -> dict[str, Any]:
    return {"name": "average", "decay": decay}


def plain_loop(weights: list[Any], decay: float) -> Any:
    """The average of weights before the first step and after each, in float64; the skipped step is no update."""
    average, updates = weights[0].astype(np.float64), 0
    for step, found in enumerate(weights[1:], 1):
        if step != SKIPPED:
            updates += 1
            kept = min(decay, (1 + updates) / (10 + updates))
            average = kept * average + (1 - kept) * found.astype(np.float64)
    return average


def pieces(engine: Any, key: str) -> Any:
    """This rank's elements of all parameters."""
    return np.concatenate([part.tensors[key].numpy().copy() for part in fragments(engine, owned=False)])


def followed(world: World, config: TrainConfig, source: Path | None = None) -> tuple[float, bool, list[str]]:
    """Five steps, of which the third is skipped; evaluations that swap weights and averages follow the others.

    Return the largest difference from a plain loop over the masters, whether the average moved, and the states.
    """
    engine = build(config, world)
    if source is not None:
        resume(engine, source)
    bias = next(p for name, p in engine.model.named_parameters() if name.endswith("projection.bias"))
    masters = [pieces(engine, "weight")]
    for step in range(1, 6):
        hook = bias.register_hook(lambda gradient: gradient * np.nan) if step == SKIPPED else None
        train_steps(engine, step, step)
        if hook is None:
            with averages_as_weights(engine):
                pass
        else:
            hook.remove()
        masters.append(pieces(engine, "weight"))
    worst, moved = 0.0, False
    for chosen in config.hooks:
        average = pieces(engine, "average")
        worst = float(np.abs(average - plain_loop(masters, chosen.options.decay)).max())
        moved = not np.array_equal(average, masters[-1])
    states = sorted(fragments(engine, owned=False)[0].tensors)
    engine.close()
    return worst, moved, states


@pytest.mark.parametrize(("stage", "precision"), [(0, "fp32"), (2, "bf16")])
def test_masters_are_averaged_as_in_a_plain_loop(two_ranks: RankPool, stage: int, precision: str) -> None:
    config = tiny(**NO_DROPOUT, zero__stage=stage, precision=precision, hooks=[average(DECAY)])
    for worst, moved, states in two_ranks.run(followed, config):
        assert worst < 2e-7
        assert moved
        assert states == ["average", "exp_avg", "exp_avg_sq", "weight"]


def saved(world: World, config: TrainConfig, folder: Path) -> None:
    engine = build(config, world, seed=2)
    train_steps(engine, 1, 2)
    save(engine, folder, 2)
    engine.close()


def test_an_average_may_begin_or_end_in_the_middle(one_rank: RankPool, tmp_path: Path) -> None:
    """It begins with the weights of the checkpoint; a run without it keeps no average that would grow old."""
    none, some = tiny(**NO_DROPOUT), tiny(**NO_DROPOUT, hooks=[average(0.999)])
    one_rank.run(saved, none, tmp_path / "none")
    one_rank.run(saved, some, tmp_path / "some")
    ((worst, _, states),) = one_rank.run(followed, tiny(**NO_DROPOUT, hooks=[average(0.1)]), tmp_path / "none")
    assert "average" in states
    assert worst < 2e-7
    ((_, _, states),) = one_rank.run(followed, none, tmp_path / "some")
    assert "average" not in states


def evaluated(world: World, config: TrainConfig, look: bool) -> list[tuple[str, str]]:
    """Eight steps; after the fifth, a forward pass with the averages that fails, or none."""
    engine = build(config, world)
    found = train_steps(engine, 1, 5)
    if look:
        engine.train(False)
        batch = RandomSource(config, world, 0).next_step()[0]
        with suppress(RuntimeError), torch.no_grad(), averages_as_weights(engine):
            engine.losses(engine.inputs(batch, step=0))  # type: ignore[arg-type]
            raise RuntimeError("an evaluation fails")
        engine.train(True)
    found += train_steps(engine, 6, 8)
    engine.close()
    return found


def test_a_pass_with_the_averages_leaves_training_as_it_was(two_ranks: RankPool) -> None:
    """Stage 3 may keep what a forward pass gathered: those would be averages, on which training would go on."""
    config = tiny(**NO_DROPOUT, zero={"stage": 3, "persistent": 0}, hooks=[average(DECAY)])
    assert two_ranks.run(evaluated, config, True) == two_ranks.run(evaluated, config, False)


def test_an_evaluation_is_one_of_the_average(one_rank: RankPool, tmp_path: Path, shards: Path) -> None:
    config, outputs = write_config(tmp_path / "run.yaml", shards, tmp_path, steps=3), [tmp_path / "a", tmp_path / "b"]
    for output, hooks in zip(outputs, ("[]", "[{name: average, decay: 0.9}]"), strict=True):
        assert one_rank.run(start, config, [f"output={output}", f"hooks={hooks}"]) == [(0, "")]
    assert logged(outputs[0]) == logged(outputs[1])
    assert evaluations(outputs[0])[-1]["loss"] != evaluations(outputs[1])[-1]["loss"]


def test_an_optimizer_that_averages_needs_no_second_average() -> None:
    with pytest.raises(ConfigurationError, match="average does not go together with optimizer"):
        tiny(optimizer={"name": "nt_asgd"}, evaluate__every=2, hooks=["average"])
    for decay in (0.0, 1.0):
        with pytest.raises(ConfigurationError, match=r"decay: "):
            tiny(hooks=[average(decay)])
