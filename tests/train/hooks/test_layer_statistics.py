"""Gradient norms by layer and the largest logits, against a plain loop of torch."""

import math

import pytest
import torch

from clozeline.train.data.global_batch import next_global_batch
from clozeline.train.distributed.stopping import StopRequest
from clozeline.train.hooks.layer_statistics import merge
from tests.matrices import mark_slow_after
from tests.train.synthetic import (
    NO_DROPOUT,
    VOCABULARY,
    RandomSource,
    build,
    random_rows,
    tiny,
    train_steps,
)

MODULES = {
    "family.tokens": 1,
    "family.stack.position": 1,
    "family.stack.layers.0": 16,
    "family.stack.layers.1": 16,
    "family.stack.norm": 2,
    "heads.masked_lm": 5,
}
"""Modules of the tiny encoder, and how many parameters each has."""


def plain_loop(world, config):
    """Norms by module, largest logit and total norm of the first global batch, in one backward
    pass."""
    from clozeline.model.build import build_model

    model = build_model(config.model, VOCABULARY, {}, seed=1)
    rows = random_rows(1, 8, 0, 8)
    scores = []
    head = model.heads["masked_lm"]
    original = head.logits
    head.logits = lambda hidden: (scores.append(original(hidden)), scores[-1])[1]
    loss = model(rows)["masked_lm"]
    (loss.total / loss.count).backward()
    squares = [
        float(p.grad.double().square().sum()) for p in model.parameters() if p.grad is not None
    ]
    total = math.sqrt(sum(squares))
    found = {}
    for module, count in MODULES.items():
        found[module] = math.sqrt(sum(squares[:count]))
        squares = squares[count:]

    assert not squares

    return found, {"masked_lm": float(torch.cat(scores).abs().max())}, total


def observe(world, config):
    """The record of the first step over all ranks, its gradient norm, and the losses of two further
    steps."""
    engine = build(config, world)
    source = RandomSource(config, world)
    batch = next_global_batch(source, engine.heads, world, StopRequest())
    result = engine.step(batch.micro_batches, batch.counts, 1, 0.0, observe=True)
    found = result.record
    later = train_steps(engine, 2, 3)
    engine.close()
    return dict(found), result.gradient_norm, later


@pytest.mark.parametrize(
    ("size", "stage", "clipping"),
    mark_slow_after(2, [(2, 0, 0.0), (2, 3, 0.05), (1, 1, 0.05), (2, 2, 0.05)]),
)
def test_every_stage_and_world_size_has_the_norms_of_a_plain_loop(
    one_rank, two_ranks, size, stage, clipping
):
    """Whether the gradient is clipped or not; what is trained does not change by a bit."""
    ranks = two_ranks if size == 2 else one_rank
    ((norms, logits, total),) = one_rank.run(plain_loop, tiny(**NO_DROPOUT))
    changes = {**NO_DROPOUT, "zero__stage": stage, "gradient_clipping": clipping}
    results = ranks.run(observe, tiny(**changes, hooks=["layer_statistics"]))
    for found, norm, _ in results:
        assert list(found) == ["layer_gradient_norms", "largest_logits"]
        assert found["layer_gradient_norms"] == pytest.approx(norms, rel=2e-5)
        assert found["largest_logits"] == pytest.approx(logits, rel=2e-5)
        squares = sum(one**2 for one in found["layer_gradient_norms"].values())
        assert math.sqrt(squares) == pytest.approx(norm, rel=2e-5)
        assert norm == pytest.approx(total, rel=2e-5)

    assert results[0][2] == ranks.run(observe, tiny(**changes))[0][2]


def test_ranks_are_merged():
    """Squares add up.

    A head without logits on one rank counts on the other, and NaN is not hidden by order.
    """
    merged = merge(
        [
            ({"a": 9.0}, {"x": 1.0, "y": math.nan}),
            ({"a": 16.0}, {"x": 3.0, "y": 2.0}),
            ({"a": 0.0}, {}),
        ]
    )

    assert merged["layer_gradient_norms"] == {"a": 5.0}
    assert merged["largest_logits"]["x"] == 3.0
    assert math.isnan(merged["largest_logits"]["y"])
    assert merge([({}, {}), ({}, {})]) == {}
