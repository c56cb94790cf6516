"""The noise of gradients: of drawn vectors whose noise is known, and against a plain loop over micro-batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.global_batch import next_global_batch
from clozeline.train.distributed.process_group import World
from clozeline.train.distributed.stopping import StopRequest
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.optim.gradient_noise import MicroBatchSquares, estimate
from clozeline.train.run import run
from tests.distributed import RankPool
from tests.matrices import USUAL_WORLDS, WORLDS, mark_slow_but
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.synthetic import NO_DROPOUT, VOCABULARY, RandomSource, build, random_rows, tiny, train_steps


def test_noise_that_is_known_is_found() -> None:
    """Rows are drawn around a mean; six micro-batches of one to three rows, averaged by rows, over many steps."""
    generator = np.random.Generator(np.random.PCG64(3))
    mean, deviations = generator.normal(size=30), generator.uniform(0.5, 2.0, 30)
    sizes = np.array([1, 3, 2, 2, 1, 3])
    found = []
    for _ in range(4000):
        parts = [(mean + deviations * generator.normal(size=(size, 30))).mean(0) for size in sizes]
        squares = sum(float(part @ part) for part in parts)
        whole = np.average(parts, axis=0, weights=sizes)
        found.append(estimate(squares, float((12 / sizes).sum()), 6, float(np.linalg.norm(whole)), 12))
    means = {key: np.mean([one[key] for one in found if one is not None]) for key in ("trace", "square")}
    assert means["trace"] == pytest.approx((deviations**2).sum(), rel=0.02)
    assert means["square"] == pytest.approx(mean @ mean, rel=0.02)


def test_there_may_be_nothing_to_compare() -> None:
    assert estimate(0.0, 0.0, 0, 1.0, 8) is None, "no labels"
    assert estimate(5.0, 1.0, 1, 2.0, 8) is None, "all labels in one micro-batch"
    assert estimate(5.0, 8.0, 4, float("inf"), 8) is None, "a skipped step"
    assert estimate(24.0, 16.0, 4, 3.0**0.5, 4) == pytest.approx({"trace": 4.0, "square": 2.0})


def plain_loop(world: World, config: TrainConfig) -> tuple[float, float, float]:
    """Sums over micro-batches of one step: squared norms of mean gradients, quotients of labels, number."""
    from clozeline.model.build import build_model

    model = build_model(config.model, VOCABULARY, {}, seed=1)
    size, squares, labels = config.data.micro_batch, [], []
    for first in range(0, 8, size):
        loss = model(random_rows(1, size, first, 8))["masked_lm"]
        (loss.total / loss.count).backward()
        squares.append(sum(float(p.grad.double().square().sum()) for p in model.parameters() if p.grad is not None))
        labels.append(float(loss.count))
        model.zero_grad()
    return sum(squares), sum(sum(labels) / count for count in labels), len(labels)


def sums(world: World, config: TrainConfig) -> tuple[list[float], list[tuple[str, str]]]:
    """The same of an engine over all ranks, and the losses of two further steps."""
    engine = build(config, world)
    batch = next_global_batch(RandomSource(config, world), engine.heads, world, StopRequest())
    found = engine.step(batch.micro_batches, batch.counts, 1, 0.0).squares
    assert found is not None
    whole = world.total([float(found.square), found.inverse, found.count])
    later = train_steps(engine, 2, 3)
    engine.close()
    return whole, later


def without(world: World, config: TrainConfig) -> list[tuple[str, str]]:
    engine = build(config, world)
    batch = next_global_batch(RandomSource(config, world), engine.heads, world, StopRequest())
    engine.step(batch.micro_batches, batch.counts, 1, 0.0)
    found = train_steps(engine, 2, 3)
    engine.close()
    return found


@pytest.mark.parametrize(("size", "stage"), mark_slow_but(USUAL_WORLDS, WORLDS))
def test_every_stage_and_world_size_sums_the_gradients_of_a_plain_loop(
    one_rank: RankPool, two_ranks: RankPool, size: int, stage: int
) -> None:
    """Uneven labels; what is trained does not change by a bit."""
    ranks = two_ranks if size == 2 else one_rank
    (expected,) = one_rank.run(plain_loop, tiny(**NO_DROPOUT))
    results = ranks.run(sums, tiny(**NO_DROPOUT, zero__stage=stage, log__noise_scale=True))
    assert [found for found, _ in results] == [pytest.approx(expected, rel=1e-5)] * len(results)
    assert results[0][1] == ranks.run(without, tiny(**NO_DROPOUT, zero__stage=stage))[0]


def test_a_micro_batch_without_labels_is_left_out() -> None:
    import torch

    model = torch.nn.Linear(2, 1, bias=False)
    observer = MicroBatchSquares(model, 2)
    for share in (0.25, 0.0, 0.75):
        (model(torch.tensor([3.0, 4.0])) * share * 2).sum().backward()
        observer.end(share)
    found = observer.take()
    assert (float(found.square), found.inverse, found.count) == pytest.approx((50.0, 4.0 + 4 / 3, 2))
    assert observer.take().count == 0


def start(world: World, config: Path) -> int:
    return run(load_config(TrainConfig, config, ["steps=2", "log.noise_scale=true"]), joined=world)


def test_records_have_both_estimates(one_rank: RankPool, two_ranks: RankPool, tmp_path: Path) -> None:
    """The same at both world sizes: their micro-batches hold the same rows."""
    shards = write_masked_sets(tmp_path / "sets")
    found: list[list[Any]] = []
    for name, ranks in (("one", one_rank), ("two", two_ranks)):
        config = write_config(tmp_path / f"{name}.yaml", shards, tmp_path / name, model__dropout={})
        assert set(ranks.run(start, config)) == {0}
        found.append([line["gradient_noise"] for line in read_lines(tmp_path / name / "metrics.jsonl")])
    assert [sorted(one) for one in found[0]] == [["square", "trace"]] * 2
    assert all(one["trace"] > 0 for one in found[0]), "rows differ: their gradients do, too"
    assert found[1] == [pytest.approx(one, rel=1e-4) for one in found[0]]


def test_one_micro_batch_has_nothing_to_compare() -> None:
    with pytest.raises(ConfigurationError, match=r"log\.noise_scale: .* below the global batch of 8 rows, got 8"):
        tiny(data__micro_batch=8, log__noise_scale=True)
    assert tiny(data__micro_batch=8).log.noise_scale is False
