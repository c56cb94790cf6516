"""AdaLoRA against peft's own model and rank allocator, in a plain loop; ZeRO stages, and a resume to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.adaptation import freeze_base
from clozeline.model.build import build_model
from clozeline.train.checkpoint.zero_partitions import fragments
from clozeline.train.compression.pruning.adalora import Adalora
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.engine_config import placement_of
from clozeline.train.distributed.process_group import World
from clozeline.train.engine import Engine
from tests.distributed import RankPool
from tests.matrices import WORLDS, mark_slow_but
from tests.model.adapters.adapted_models import inside_peft, peft
from tests.model.adapters.test_adalora import WithLoss, copied
from tests.train.compression.pruning.pruned import Tensors, pruned, tensors_of
from tests.train.synthetic import VOCABULARY, random_rows, resume, save, train_steps

TARGETS = ["query", "value", "up"]
BUDGET: dict[str, Any] = {"name": "adalora", "rank": 2, "start": 2, "end": 6, "every": 2, "orthogonality": 0.3}
ADAPTER: dict[str, Any] = {
    "model__adapter": {"name": "adalora", "rank": 5, "alpha": 6.0, "targets": TARGETS},
    "model__init_from": "nowhere",
}
CASE = {"prune": {key: value for key, value in BUDGET.items() if key != "name"}, "run": ADAPTER}


def budgeted(**changes: Any) -> TrainConfig:
    """A configuration that trains an adapter in 8 steps, and prunes it until the sixth."""
    return pruned(BUDGET, **{**ADAPTER, **changes})


def start(world: World, config: TrainConfig) -> Engine:
    placement = placement_of(config, world)
    model = build_model(config.model, VOCABULARY, {}, seed=1, placement=placement)
    freeze_base(model)
    return Engine(model, config, world)


def train(world: World, config: TrainConfig, folder: str | None = None) -> tuple[list[tuple[str, str]], Tensors]:
    """Losses and norms of 8 steps, and the tensors at the end; with a folder, saved and resumed after half."""
    engine = start(world, config)
    engine.pruning.start((), initialized=True)  # type: ignore[union-attr]
    measured = train_steps(engine, 1, 4 if folder else 8)
    if folder is not None:
        save(engine, Path(folder), 4)
        engine.close()
        engine = start(world, config)
        resume(engine, Path(folder))
        engine.pruning.start((), initialized=True)  # type: ignore[union-attr]
        measured += train_steps(engine, 5, 8)
    assert {piece.name.split(".")[0] for piece in fragments(engine, owned=False)} <= {"adapters"}
    tensors = tensors_of(engine, world)
    engine.close()
    return measured, tensors


def loop_of_peft(world: World, config: TrainConfig) -> Tensors:
    """One process, by peft: its penalty in the loss, its scores of each step, its masks."""
    model = build_model(config.model, VOCABULARY, {}, seed=1)
    keys = {"init_r": 5, "target_r": 2, "lora_alpha": 6, "orth_reg_weight": 0.3}
    schedule = {"tinit": 2, "tfinal": 2, "deltaT": 2, "total_step": 8}
    wrapped, theirs = inside_peft(model, peft().AdaLoraConfig(**keys, **schedule, target_modules=TARGETS))
    pairs = copied(wrapped, model.adapters["adalora"])
    parameters = [other for _, other in pairs.values()]
    for name, parameter in wrapped.named_parameters():
        parameter.requires_grad_("lora_" in name)
    tuner, allocator = wrapped.base_model, wrapped.base_model.rankallocator
    names = {id(parameter): name for name, parameter in theirs.named_parameters()}
    optimizer = torch.optim.AdamW(parameters, lr=1.0, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.1)
    rates = config.schedule.build(8)
    tuner.model, pattern = WithLoss(theirs), None
    for step in range(1, 9):
        optimizer.param_groups[0]["lr"] = 0.003 * rates(step)
        tuner(random_rows(step, 8, 0, 8)).loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        if step <= 6:  # the weights of the step, as in the paper
            allocator.update_ipt(theirs)
        optimizer.step()
        optimizer.zero_grad()
        if step in (4, 6):
            budget, due = allocator.budget_schedule(step)
            assert due
            pattern = allocator.mask_to_budget(theirs, budget)
        elif step > 6:
            allocator.mask_using_rank_pattern(theirs, pattern)
    return {
        f"adapters.adalora.{own}": {
            "weight": other.detach().flatten(),
            "sensitivity": allocator.exp_avg_ipt[names[id(other)]].flatten(),
            "uncertainty": allocator.exp_avg_unc[names[id(other)]].flatten(),
        }
        for own, (_, other) in pairs.items()
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("size", "stage"), mark_slow_but([(2, 3)], WORLDS))
def test_a_step_is_that_of_peft(one_rank: RankPool, two_ranks: RankPool, size: int, stage: int) -> None:
    (states,) = one_rank.run(loop_of_peft, budgeted())
    for _, tensors in (two_ranks if size == 2 else one_rank).run(train, budgeted(zero__stage=stage)):
        assert tensors.keys() == states.keys()
        for name, own in states.items():
            for key, values in own.items():
                torch.testing.assert_close(tensors[name][key], values, rtol=1e-3, atol=1e-6, msg=f"{name} {key}")
        values = torch.cat([own["weight"] for name, own in tensors.items() if name.endswith(".values")])
        assert (len(values), int((values != 0).sum())) == (6 * 5, 6 * 2)


def test_the_budget_is_global_and_follows_the_schedule_of_peft(one_rank: RankPool) -> None:
    ((_, tensors),) = one_rank.run(train, budgeted())
    ranks = [int((own["weight"] != 0).sum()) for name, own in tensors.items() if name.endswith(".values")]
    assert sum(ranks) == 12
    assert len({*ranks}) > 1, "maps have different ranks"


@pytest.mark.parametrize("stage", mark_slow_but([0], [0, 3]))
def test_a_resumed_run_ends_with_the_same_bits(one_rank: RankPool, tmp_path: Path, stage: int) -> None:
    resume_to_the_bit(one_rank, tmp_path, budgeted(zero__stage=stage))


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "precision"), [(0, "fp32"), (1, "bf16"), (2, "fp32"), (3, "fp32")])
def test_two_ranks_resume_to_the_bit(two_ranks: RankPool, tmp_path: Path, stage: int, precision: str) -> None:
    resume_to_the_bit(two_ranks, tmp_path, budgeted(zero__stage=stage, precision=precision))


def resume_to_the_bit(pool: RankPool, folder: Path, config: TrainConfig) -> None:
    straight = pool.run(train, config)
    stopped = pool.run(train, config, str(folder))
    for (losses, tensors), (other_losses, others) in zip(straight, stopped, strict=True):
        assert losses == other_losses
        for name, states in tensors.items():
            assert states.keys() == others[name].keys()
            assert all(torch.equal(state, others[name][key]) for key, state in states.items()), name


def test_what_cannot_be_pruned_is_refused_before_the_first_step() -> None:
    model = build_model(budgeted().model, VOCABULARY, {}, seed=1)
    pruning = Adalora(Adalora.Options(rank=2))
    assert "12 of 30 singular values of 6 linear maps stay, from step 0 to 6" in pruning.describe(model, 9)
    with pytest.raises(ConfigurationError, match=r"prune\.rank: expected less than the mean rank .* 5, got 5"):
        Adalora(Adalora.Options(rank=5)).describe(model, 9)
    with pytest.raises(ConfigurationError, match=r"prune\.end: expected at most 9"):
        Adalora(Adalora.Options(rank=2, end=10)).describe(model, 9)
    model.use_adapter(None)
    with pytest.raises(ConfigurationError, match=r"expected model\.adapter={name: adalora, rank: 12}, got no"):
        pruning.describe(model, 9)
