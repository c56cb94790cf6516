"""Pulls to anchors under DeepSpeed, against a plain loop that pulls whole parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from clozeline.errors import ConfigurationError
from clozeline.train.checkpoint.checkpoints import restore
from clozeline.train.checkpoint.zero_partitions import fragments, memory
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from tests.distributed import RankPool
from tests.matrices import USUAL_WORLDS, WORLDS, mark_slow_but
from tests.train.synthetic import NO_DROPOUT, VOCABULARY, build, random_rows, resume, save, tiny, train_steps

Steps = list[tuple[float, float]]
FRESH = ("heads.masked_lm.transform.weight", "heads.masked_lm.projection.bias")
KEPT: dict[str, Any] = {
    **NO_DROPOUT,
    "model__init_from": "elsewhere",
    "optimizer__weight_decay": 0.0,
    "optimizer__learning_rate": 0.02,
}


def kept(regularizer: dict[str, Any] | None, **changes: Any) -> TrainConfig:
    return tiny(**{**KEPT, "regularizer": regularizer, **changes})


def plain_loop(world: World, config: TrainConfig, alpha: float, beta: float) -> Steps:
    """One process; weights are pulled one whole parameter at a time, by the quotient that solves the proximal step."""
    from clozeline.model.build import build_model

    model = build_model(config.model, VOCABULARY, {}, seed=1)
    start = {name: p.detach().clone() * (name not in FRESH) for name, p in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.0)
    schedule, found = config.schedule.build(8), []
    for step in range(1, 7):
        rate = optimizer.param_groups[0]["lr"] = 0.02 * schedule(step)
        loss = model(random_rows(step, 8, 0, 8))["masked_lm"]
        (loss.total / loss.count).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with torch.no_grad():
            optimizer.step()
            for name, p in model.named_parameters():
                share = rate * (beta if name in FRESH else alpha)
                p.copy_((p + share * start[name]) / (1 + share))
        optimizer.zero_grad()
        found.append((float(loss.total.detach()) / loss.count, float(norm)))
    return found


def steps(world: World, config: TrainConfig, folder: str | None = None, target: TrainConfig | None = None) -> Steps:
    """Six steps; with a folder, the last three after a save and a resume, perhaps with another configuration."""
    engine = build(config, world)
    restore(engine, None, FRESH)
    found = train_steps(engine, 1, 3)
    if folder is not None:
        save(engine, Path(folder), 3)
        engine.close()
        engine = build(target or config, world, seed=2)
        resume(engine, Path(folder))
        restore(engine, None, ())  # must change nothing
    found += train_steps(engine, 4, 6)
    engine.close()
    return [(float.fromhex(loss), float.fromhex(norm)) for loss, norm in found]


@pytest.mark.parametrize(("size", "stage"), mark_slow_but(USUAL_WORLDS, WORLDS))
def test_every_stage_equals_a_plain_loop(one_rank: RankPool, two_ranks: RankPool, size: int, stage: int) -> None:
    l2_sp = {"name": "l2_sp", "alpha": 20.0, "beta": 5.0}
    (expected,) = one_rank.run(plain_loop, kept(l2_sp), 20.0, 5.0)
    (plain,) = one_rank.run(plain_loop, kept(l2_sp), 0.0, 0.0)
    assert abs(expected[-1][0] - plain[-1][0]) > 0.005, "the pull is felt"
    for found in (two_ranks if size == 2 else one_rank).run(steps, kept(l2_sp, zero__stage=stage)):
        assert found == [pytest.approx(pair, rel=5e-6) for pair in expected]


@pytest.mark.parametrize(("stage", "precision"), mark_slow_but([(2, "bf16")], [(1, "fp32"), (2, "bf16"), (3, "fp32")]))
def test_no_strength_is_no_regularizer(two_ranks: RankPool, stage: int, precision: str) -> None:
    changes: dict[str, Any] = {"zero__stage": stage, "precision": precision}
    free = kept({"name": "l2_sp", "alpha": 0.0, "beta": 0.0}, **changes)
    assert two_ranks.run(steps, free) == two_ranks.run(steps, kept(None, **changes))


@pytest.mark.parametrize(("stage", "precision"), mark_slow_but([(1, "bf16")], [(0, "fp32"), (1, "bf16"), (3, "fp32")]))
def test_a_resumed_run_keeps_its_anchors(two_ranks: RankPool, tmp_path: Path, stage: int, precision: str) -> None:
    config = kept({"name": "l2_sp", "alpha": 20.0}, zero__stage=stage, precision=precision)
    assert two_ranks.run(steps, config, str(tmp_path)) == two_ranks.run(steps, config)


def test_anchors_survive_another_stage(two_ranks: RankPool, tmp_path: Path) -> None:
    l2_sp = {"name": "l2_sp", "alpha": 20.0}
    straight = two_ranks.run(steps, kept(l2_sp))[0]
    hopped = two_ranks.run(steps, kept(l2_sp), str(tmp_path), kept(l2_sp, zero__stage=3))[0]
    assert hopped == [pytest.approx(pair, rel=5e-6) for pair in straight]


def test_a_checkpoint_with_anchors_serves_a_run_without(two_ranks: RankPool, tmp_path: Path) -> None:
    free = kept({"name": "l2_sp", "alpha": 0.0, "beta": 0.0})
    assert two_ranks.run(steps, free, str(tmp_path), kept(None)) == two_ranks.run(steps, kept(None))


def held(world: World, config: TrainConfig) -> tuple[int, dict[str, list[float]]]:
    engine = build(config, world)
    restore(engine, None, FRESH)
    count = sum(p.numel() for p in engine.model.parameters())
    found = memory(engine)["optimizer"] // (4 * count)
    tensors = {part.name: part.tensors["strength"].tolist() for part in fragments(engine, owned=False)}
    engine.close()
    return found, tensors


def test_strengths_are_fisher_information_of_the_file(one_rank: RankPool, tmp_path: Path) -> None:
    from clozeline.model.build import build_model

    model = build_model(kept(None).model, VOCABULARY, {}, seed=1)
    fisher = {f"fisher/{name}": torch.rand_like(p) for name, p in model.named_parameters() if name not in FRESH}
    weights = {f"weight/{name}": p.detach().contiguous() for name, p in model.named_parameters() if name not in FRESH}
    save_file(fisher | weights, tmp_path / "fisher.safetensors")
    ewc = {"name": "ewc", "fisher": str(tmp_path / "fisher.safetensors"), "strength": 7.0}
    ((copies, strengths),) = one_rank.run(held, kept(ewc))
    assert copies == 2, "anchors and strengths, before the first step"
    for name, values in strengths.items():
        expected = 7.0 * fisher[f"fisher/{name}"].flatten() if name not in FRESH else torch.zeros(len(values))
        torch.testing.assert_close(torch.tensor(values), expected)


def test_a_regularizer_needs_something_to_keep() -> None:
    with pytest.raises(ConfigurationError, match=r"needs model\.init_from"):
        tiny(regularizer="l2_sp")
    with pytest.raises(ConfigurationError, match="weight_decay: expected 0 with the regularizer l2_sp"):
        kept({"name": "l2_sp"}, optimizer__weight_decay=0.1)
