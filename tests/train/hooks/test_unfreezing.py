"""Gradual unfreezing and rates by layer, against a plain loop whose parameters need no gradient before their time."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from clozeline.train.checkpoint.zero_partitions import fragments
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from tests.distributed import RankPool
from tests.matrices import USUAL_WORLDS, WORLDS, mark_slow_but
from tests.train.synthetic import NO_DROPOUT, VOCABULARY, build, random_rows, tiny, train_steps

Steps = list[tuple[float, float]]
CASE = {"every": 2}
"""Options of a hook in the contract tests."""
EVERY: dict[str, Any] = {
    **NO_DROPOUT,
    "schedule__name": "constant",
    "hooks": [{"name": "unfreezing", "every": 2}],
    "optimizer__layer_decay": 0.5,
}
"""Two layers: the head learns from step 1, the layers from 3 and 5, the tables from 7 on."""


def depth(name: str) -> int:
    """Of a parameter of the tiny encoder, by its name."""
    if name.startswith(("heads", "family.stack.norm")):
        return 0
    return 2 if "layers.0" in name else 1 if "layers.1" in name else 3


def plain_loop(world: World, config: TrainConfig, steps: int) -> tuple[Steps, dict[str, list[float]]]:
    """One process, a group for each parameter; gradients are asked for only from a parameter's first step on."""
    from clozeline.model.build import build_model

    model = build_model(config.model, VOCABULARY, {}, seed=1)
    groups = [
        {"params": [p], "weight_decay": 0.1 if p.ndim > 1 else 0.0, "depth": depth(name)}
        for name, p in model.named_parameters()
    ]
    optimizer = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.98), eps=1e-6)
    schedule, found = config.schedule.build(8), []
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = 0.003 * schedule(step) * 0.5 ** group["depth"]
            group["params"][0].requires_grad_(not config.hooks or (step - 1) // 2 >= group["depth"])
        loss = model(random_rows(step, 8, 0, 8))["masked_lm"]
        (loss.total / loss.count).backward()
        learning = [p for p in model.parameters() if p.grad is not None]
        norm = torch.nn.utils.clip_grad_norm_(learning, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        found.append((float(loss.total.detach()) / loss.count, float(norm)))
    return found, {name: p.detach().flatten().tolist() for name, p in model.named_parameters()}


def engine_loop(world: World, config: TrainConfig, steps: int) -> tuple[Steps, Any, list[int]]:
    """Also the weights that this rank holds, and the depths that changed at each step."""
    engine = build(config, world)
    found, changed = [], []
    for step in range(1, steps + 1):
        before = weights(engine)
        found += [(float.fromhex(loss), float.fromhex(norm)) for loss, norm in train_steps(engine, step, step)]
        after = weights(engine)
        changed.append(max((depth(name) for name, _ in after if after[name, _] != before[name, _]), default=-1))
    held = weights(engine)
    engine.close()
    return found, held, changed


def weights(engine: Any) -> dict[tuple[str, int], list[float]]:
    return {(part.name, part.start): part.tensors["weight"].tolist() for part in fragments(engine, owned=False)}


@pytest.mark.parametrize(("size", "stage"), mark_slow_but(USUAL_WORLDS, WORLDS))
@pytest.mark.parametrize(
    "hooks", [pytest.param(EVERY["hooks"], id="unfreezing"), pytest.param([], id="rates alone", marks=pytest.mark.slow)]
)
def test_every_stage_equals_a_plain_loop(
    one_rank: RankPool, two_ranks: RankPool, hooks: list[Any], size: int, stage: int
) -> None:
    config = tiny(**{**EVERY, "hooks": hooks})
    ((expected, final),) = one_rank.run(plain_loop, config, 8)
    ranks = two_ranks if size == 2 else one_rank
    config = tiny(**{**EVERY, "hooks": hooks, "zero__stage": stage})
    for found, held, changed in ranks.run(engine_loop, config, 8):
        assert found == [pytest.approx(pair, rel=3e-6) for pair in expected]
        for (name, start), values in held.items():
            assert values == pytest.approx(final[name][start : start + len(values)], rel=1e-4, abs=1e-5), name
        if stage == 0:
            assert changed == ([0, 0, 1, 1, 2, 2, 3, 3] if hooks else [3] * 8)
