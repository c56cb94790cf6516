"""The noise of gradients: of drawn vectors whose noise is known, and against a plain loop over
micro-batches."""

import numpy as np
import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.train.hooks.gradient_noise import estimate
from tests.matrices import mark_slow_after
from tests.train.synthetic import (
    NO_DROPOUT,
    VOCABULARY,
    RandomBatch,
    RandomSource,
    build,
    random_rows,
    tiny,
    train_steps,
)


def test_noise_that_is_known_is_found():
    """Rows are drawn around a mean.

    Six micro-batches of one to three rows, averaged by rows, over many steps.
    """
    generator = np.random.Generator(np.random.PCG64(3))
    mean = generator.normal(size=30)
    deviations = generator.uniform(0.5, 2.0, 30)
    sizes = np.array([1, 3, 2, 2, 1, 3])
    found = []

    for _ in range(4000):
        parts = [(mean + deviations * generator.normal(size=(size, 30))).mean(0) for size in sizes]
        squares = sum(float(part @ part) for part in parts)
        whole = np.average(parts, axis=0, weights=sizes)
        found.append(
            estimate(
                squares,
                float((12 / sizes).sum()),
                6,
                float(np.linalg.norm(whole)),
                12,
            )
        )

    means = {
        key: np.mean([one[key] for one in found if one is not None]) for key in ("trace", "square")
    }

    assert means["trace"] == pytest.approx((deviations**2).sum(), rel=0.02)
    assert means["square"] == pytest.approx(mean @ mean, rel=0.02)


def test_there_may_be_nothing_to_compare():
    assert estimate(0.0, 0.0, 0, 1.0, 8) is None, "no labels"
    assert estimate(5.0, 1.0, 1, 2.0, 8) is None, "all labels in one micro-batch"
    assert estimate(5.0, 8.0, 4, float("inf"), 8) is None, "a skipped step"
    assert estimate(24.0, 16.0, 4, 3.0**0.5, 4) == pytest.approx({"trace": 4.0, "square": 2.0})


def plain_loop(world, config, empty):
    """The estimates of one step from the gradients of each micro-batch; one may have no labels."""
    from clozeline.model.build import build_model

    model = build_model(config.model, VOCABULARY, {}, seed=1)
    size = config.data.micro_batch
    gradients = []
    labels = []

    for index, first in enumerate(range(0, 8, size)):
        if index != empty:
            loss = model(random_rows(1, size, first, 8))["masked_lm"]
            (loss.total / loss.count).backward()
            gradients.append(
                torch.cat(
                    [p.grad.double().flatten() for p in model.parameters() if p.grad is not None]
                )
            )

            labels.append(float(loss.count))
            model.zero_grad()

    whole = sum(gradient * count for gradient, count in zip(gradients, labels, strict=True)) / sum(
        labels
    )
    squares = sum(float(gradient.square().sum()) for gradient in gradients)
    return estimate(
        squares, sum(sum(labels) / count for count in labels), len(labels), float(whole.norm()), 8
    )


def recorded(world, config, empty):
    """The record of a step, in which a micro-batch of the last rank has no labels, and losses of
    two further steps."""
    engine = build(config, world)
    batches = list(RandomSource(config, world).next_step())
    if empty is not None and world.rank == world.size - 1:
        none = {name: batches[-1].tensors[name][:0] for name in ("label_index", "label_ids")}
        batches[-1] = RandomBatch({**batches[-1].tensors, **none})

    counts = {
        "masked_lm": world.sum_over_ranks(
            [sum(engine.heads["masked_lm"].count(b.tensors) for b in batches)]
        )[0]
    }

    found = engine.step(batches, counts, 1, 0.0, observe=True).record
    later = train_steps(engine, 2, 3)
    engine.close()
    return found, later


@pytest.mark.parametrize(("size", "stage"), mark_slow_after(1, [(2, 3), (1, 1)]))
def test_every_stage_and_world_size_has_the_estimates_of_a_plain_loop(
    one_rank, two_ranks, size, stage
):
    """Uneven labels; what is trained does not change by a bit."""
    ranks = two_ranks if size == 2 else one_rank

    for empty in (None, 3):
        (expected,) = one_rank.run(plain_loop, tiny(**NO_DROPOUT), empty)
        results = ranks.run(
            recorded, tiny(**NO_DROPOUT, zero__stage=stage, hooks=["gradient_noise"]), empty
        )

        assert [found["gradient_noise"] for found, _ in results] == [
            pytest.approx(expected, rel=1e-4)
        ] * len(results)
        assert (
            results[0][1]
            == ranks.run(
                recorded,
                tiny(**NO_DROPOUT, zero__stage=stage),
                empty,
            )[0][1]
        )


def test_one_micro_batch_has_nothing_to_compare():
    with pytest.raises(
        ConfigurationError, match=r"gradient_noise: .* below the global batch of 8 rows, got 8"
    ):
        tiny(data__micro_batch=8, hooks=["gradient_noise"])
