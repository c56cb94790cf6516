"""The moving average of the weights: against a plain loop, in the same bits at every stage, world size and resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.train.checkpoint.zero_partitions import fragments, memory
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.evaluate import averages_as_weights
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.run import run
from tests.distributed import RankPool
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.optim.optimizers.injected import configured, gradient, whole_weights
from tests.train.synthetic import NO_DROPOUT, build, resume, save, tiny, train_steps

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


Whole = dict[str, bytes]


def whole(engine: Any) -> Whole:
    return {name: weight.numpy().tobytes() for name, weight in whole_weights(engine).items()}


def averaged(
    world: World, config: TrainConfig, first: int, last: int, source: Path | None = None, target: Path | None = None
) -> tuple[list[Whole], Whole]:
    """Weights before the first step and after each, by injected gradients, and the average at the end.

    The gradient of one step is not finite. On two ranks, the model takes its averages for a moment after each step.
    """
    engine = build(config, world)
    now = [0]
    for name, parameter in engine.model.named_parameters():
        parameter.register_hook(  # type: ignore[no-untyped-call]
            lambda found, name=name: gradient(name, found.shape, now[0]) * (np.nan if now[0] == SKIPPED else 1.0)
        )
    if source is not None:
        resume(engine, source)
    weights = [whole(engine)]
    for now[0] in range(first, last + 1):
        train_steps(engine, now[0], now[0])
        weights.append(whole(engine))
        if world.size > 1:
            with averages_as_weights(engine):
                pass
    if target is not None:
        save(engine, target, last)
    with averages_as_weights(engine):
        averages = whole(engine)
    engine.close()
    return weights, averages


def adafactor(ranks: int, stage: int) -> TrainConfig:
    return configured("adafactor", ranks, stage, hooks=[average(DECAY)])


@pytest.fixture(scope="module")
def straight(one_rank: RankPool) -> tuple[list[Whole], Whole]:
    """Seven steps of one rank at stage 0."""
    ((weights, averages),) = one_rank.run(averaged, adafactor(1, 0), 1, 7)
    return weights, averages


def test_the_average_is_that_of_a_plain_loop(straight: tuple[list[Whole], Whole]) -> None:
    weights, averages = straight
    for name, found in averages.items():
        expected = plain_loop([np.frombuffer(one[name], np.float32) for one in weights], DECAY)
        np.testing.assert_allclose(np.frombuffer(found, np.float32), expected, rtol=2e-6, atol=1e-7)
        assert found != weights[-1][name]


@pytest.mark.slow
def test_every_stage_and_resume_gives_the_same_bits(
    one_rank: RankPool, two_ranks: RankPool, straight: tuple[list[Whole], Whole], tmp_path: Path
) -> None:
    """Two ranks straight, and from a checkpoint of stage 1 at stages 2 and 3, and at stage 0 on one rank."""
    weights, averages = straight
    assert two_ranks.run(averaged, adafactor(2, 0), 1, 7) == [(weights, averages)] * 2
    two_ranks.run(averaged, adafactor(2, 1), 1, 4, None, tmp_path)
    for ranks, count, stage in ((one_rank, 1, 0), (two_ranks, 2, 2), (two_ranks, 2, 3)):
        for continued in ranks.run(averaged, adafactor(count, stage), 5, 7, tmp_path):
            assert continued == (weights[4:], averages), stage


def pieces(engine: Any, key: str) -> Any:
    """This rank's elements of all parameters."""
    return np.concatenate([part.tensors[key].numpy().copy() for part in fragments(engine, owned=False)])


def followed(world: World, config: TrainConfig, source: Path | None = None) -> tuple[float, int, list[str]]:
    """Two steps; the largest difference from a plain loop over the masters, copies of the parameters held, states."""
    engine = build(config, world)
    if source is not None:
        resume(engine, source)
    masters = [pieces(engine, "weight")]
    for step in (1, 2):
        train_steps(engine, step, step)
        masters.append(pieces(engine, "weight"))
    worst = 0.0
    for hook in config.hooks:
        worst = float(np.abs(pieces(engine, "average") - plain_loop(masters, hook.options.decay)).max())
    states = sorted(fragments(engine, owned=False)[0].tensors)
    copies = round(memory(engine)["optimizer"] / (4 * len(masters[0])))
    engine.close()
    return worst, copies, states


def test_the_masters_of_bf16_are_averaged(two_ranks: RankPool) -> None:
    config = tiny(**NO_DROPOUT, zero__stage=2, precision="bf16", hooks=[average(0.2)])
    for worst, copies, states in two_ranks.run(followed, config):
        assert worst < 1e-7
        assert states == ["average", "exp_avg", "exp_avg_sq", "weight"]
        assert copies == 4, "master, two moments, average"


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
    assert worst < 1e-7
    ((_, _, states),) = one_rank.run(followed, none, tmp_path / "some")
    assert "average" not in states


def start(world: World, config: Path, words: list[str]) -> int:
    return run(load_config(TrainConfig, config, words), joined=world)


def test_an_evaluation_is_one_of_the_average(one_rank: RankPool, tmp_path: Path) -> None:
    config = write_config(tmp_path / "run.yaml", write_masked_sets(tmp_path / "sets"), tmp_path / "run", steps=3)
    found = []
    for words in ([], ["hooks=[{name: average, decay: 0.9}]"]):
        output = tmp_path / str(len(words))
        assert one_rank.run(start, config, [f"output={output}", *words]) == [0]
        found.append(read_lines(output / "metrics.jsonl"))
    assert [line["loss"] for line in found[0]] == [line["loss"] for line in found[1]]
    assert found[0][-1]["heldout"]["heldout"]["loss"] != found[1][-1]["heldout"]["heldout"]["loss"]


def test_an_optimizer_that_averages_needs_no_second_average() -> None:
    with pytest.raises(ConfigurationError, match="average does not go together with optimizer"):
        tiny(optimizer={"name": "nt_asgd"}, evaluate__every=2, hooks=["average"])
    for decay in (0.0, 1.0):
        with pytest.raises(ConfigurationError, match=r"decay: "):
            tiny(hooks=[average(decay)])
