"""Several heads and objectives in one stream, with uneven counts, give the gradient of one big batch.

No bucket of ZeRO holds all parameters: some gradients are reduced while others are still to come.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from clozeline.model.loss import IGNORED
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from tests.distributed import RankPool
from tests.train.optim.optimizers.injected import Weights, whole_weights
from tests.train.synthetic import (
    NO_DROPOUT,
    VOCABULARY,
    RandomBatch,
    RandomSource,
    build,
    random_rows,
    tiny,
    train_steps,
    weighted,
)

RATE = 64.0
"""Rate of plain SGD, so large that rounding of the weights hides nothing of the gradient."""
HEADS = {"masked_lm": 1.0, "sentence": 0.25, "token": 5.0}


def several(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rows of three kinds, told by their ids: causal or not, with or without labels, with a class or without one."""
    tensors = weighted(tensors)
    second = tensors["input_ids"][:, 1]
    labelled = second[tensors["label_index"] // tensors["input_ids"].shape[1]] % 3 > 0
    labels = {name: tensors[name][labelled] for name in ("label_index", "label_ids", "label_weight")}
    return {
        **{name: tensor for name, tensor in tensors.items() if name != "label_count"},
        **labels,
        "sentence_label": torch.where(second % 3 < 2, second % 2, IGNORED),
    }


class SeveralSource(RandomSource):
    def next_step(self) -> Sequence[RandomBatch]:
        return [RandomBatch(several(batch.tensors), batch.samples) for batch in super().next_step()]


def configured(micro_batch: int, stage: int) -> TrainConfig:
    return tiny(
        optimizer={"name": "nt_asgd", "learning_rate": RATE, "weight_decay": 0.0}, evaluate__every=9,
        schedule={"name": "constant", "steps": 8}, gradient_clipping=0.0, model__heads=HEADS,
        data__micro_batch=micro_batch, zero={"stage": stage, "bucket": 5000, "persistent": 0}, **NO_DROPOUT,
    )  # fmt: skip


def one_big_batch(world: World, config: TrainConfig) -> Weights:
    """The gradient in plain torch, of all rows at once and in one process."""
    from clozeline.model.build import build_model

    model = build_model(config.model, VOCABULARY, {}, seed=1)
    losses = model(several(random_rows(1, 8, 0, 8)))
    counts = [float(losses[head].count) for head in HEADS]
    assert len(set(counts)) == len(counts)
    assert all(counts)
    torch.stack([weight * losses[head].total / losses[head].count for head, weight in HEADS.items()]).sum().backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def distributed(world: World, config: TrainConfig) -> Weights:
    """The gradient as the difference that a step of plain SGD makes."""
    engine = build(config, world)
    before = whole_weights(engine)
    train_steps(engine, 1, 1, SeveralSource)
    found = {name: (before[name] - after) / RATE for name, after in whole_weights(engine).items()}
    engine.close()
    return found


def test_the_gradient_is_that_of_one_big_batch(one_rank: RankPool, two_ranks: RankPool) -> None:
    (expected,) = one_rank.run(one_big_batch, configured(8, 0))
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    cases = [
        (one_rank, 8, 0),
        (one_rank, 1, 0),
        (two_ranks, 4, 0),
        (two_ranks, 1, 1),
        (two_ranks, 2, 2),
        (two_ranks, 1, 3),
    ]
    for ranks, micro_batch, stage in cases:
        for found in ranks.run(distributed, configured(micro_batch, stage)):
            for name, gradient in expected.items():
                differs = float((found[name] - gradient).abs().max())
                assert differs == pytest.approx(0.0, abs=1e-6 * largest), (name, micro_batch, stage)
