"""Movement pruning against a model that has scores as parameters, trained by torch's own autograd and Adam."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from tests.distributed import RankPool
from tests.train.compression.pruning.pruned import (
    Tensors,
    matrices,
    plain_adamw,
    pruned,
    train,
    zeros,
)
from tests.train.synthetic import VOCABULARY, random_rows

HARD: dict[str, Any] = {"name": "movement", "keep": 0.3, "start": 1, "end": 6}
SOFT: dict[str, Any] = {"name": "movement", "mode": "soft", "threshold": 0.495, "penalty": 50.0, "end": 6}
CASE = {"prune": {"keep": 0.3, "end": 6}}


class StraightThrough(torch.autograd.Function):
    """A mask in the forward pass, the identity in the backward pass, as in the code of the paper."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, mask: Tensor) -> Tensor:
        return mask.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return gradient, None


class Masked(nn.Module):
    """W' = W * mask(S)."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros_like(weight))
        self.mask = torch.ones_like(weight)

    def forward(self, weight: Tensor) -> Tensor:
        self.weight = weight.detach().clone()
        self.product = weight * StraightThrough.apply(self.scores, self.mask)
        if self.product.requires_grad:
            self.product.retain_grad()
        return self.product


def autograd_loop(world: World, config: TrainConfig, options: dict[str, Any]) -> tuple[list[float], Tensors]:
    """One process: scores are parameters; the norm is that of the gradients of the masked weights."""
    from clozeline.model.build import build_model

    model = build_model(config.model, VOCABULARY, {}, seed=1)
    layers = [
        (name, module) for name, module in model.named_modules() if isinstance(module, nn.Linear) and ".layers." in name
    ]
    masks: dict[str, Masked] = {}
    for name, module in layers:
        masks[name] = Masked(module.weight.detach())
        parametrize.register_parametrization(module, "weight", masks[name])
    named = {n: p for n, p in model.named_parameters() if not n.endswith("scores")}
    scores = [own.scores for own in masks.values()]
    optimizer = plain_adamw(named.values())
    trainer = torch.optim.Adam(scores, lr=1.0)
    schedule, losses, soft = config.schedule.build(8), [], options.get("mode") == "soft"
    start, total = options.get("start", 0), sum(own.numel() for own in scores)
    for step in range(1, 9):
        part = 1.0 if step >= 6 else 1 - (1 - max(step - start, 0) / (6 - start)) ** 3
        for group in (*optimizer.param_groups, *trainer.param_groups):
            group["lr"] = (0.01 if group in trainer.param_groups else 0.003) * schedule(step)
        loss = model(random_rows(step, 8, 0, 8))["masked_lm"]
        (loss.total / loss.count).backward()
        for own in masks.values():  # the rule that the product's gradient gives
            torch.testing.assert_close(own.scores.grad, own.product.grad * own.weight)
        direct = [p for name, p in named.items() if "parametrizations" not in name]
        norm = torch.stack([p.grad.norm() for p in direct] + [own.product.grad.norm() for own in masks.values()]).norm()
        scale = min(1.0, 1.0 / (float(norm) + 1e-6))
        for p in (*named.values(), *scores):
            p.grad.mul_(scale)
        if soft:
            penalty = 50.0 * part * sum(own.sigmoid().sum() for own in scores) / total
            penalty.backward()
        optimizer.step()
        trainer.step()
        optimizer.zero_grad()
        trainer.zero_grad()
        for (_, module), own in zip(layers, masks.values(), strict=True):
            values = own.scores.detach()
            if soft:
                own.mask = (values.sigmoid() > 0.495 * part).float()
            elif step >= start:
                lowest = values.flatten().argsort(stable=True)[: round(0.7 * part * values.numel())]
                own.mask = torch.ones_like(values).index_put_(
                    torch.unravel_index(lowest, values.shape), torch.tensor(0.0)
                )
            for key in ("exp_avg", "exp_avg_sq"):
                optimizer.state[module.parametrizations.weight.original][key].mul_(own.mask)
        losses.append(float(loss.total.detach()) / loss.count)
    return losses, {
        f"{name}.weight": {
            "scores": own.scores.detach().flatten(),
            "mask": own.mask.flatten(),
            "dense": module.parametrizations.weight.original.detach().flatten(),
        }
        for (name, module), own in zip(layers, masks.values(), strict=True)
    }


@pytest.mark.parametrize(("options", "stage"), [(HARD, 3), (SOFT, 0)], ids=["hard", "soft"])
def test_a_step_is_that_of_scores_as_parameters(
    one_rank: RankPool, two_ranks: RankPool, options: dict[str, Any], stage: int
) -> None:
    ((expected, states),) = one_rank.run(autograd_loop, pruned(options), options)
    for measured, tensors in (two_ranks if stage else one_rank).run(train, pruned(options, zero__stage=stage)):
        assert [loss for loss, _ in measured] == pytest.approx(expected, rel=2e-4)
        for name, own in matrices(tensors).items():
            assert torch.equal(own["weight"], own["dense"] * own["mask"]), name
            assert (own["mask"] != states[name]["mask"]).float().mean() < 0.01, name
            torch.testing.assert_close(own["scores"], states[name]["scores"], rtol=0.02, atol=2e-4)
            torch.testing.assert_close(own["dense"], states[name]["dense"], rtol=0.02, atol=2e-4)


def test_weights_stay_masked_between_two_choices_of_masks(one_rank: RankPool) -> None:
    ((_, tensors),) = one_rank.run(train, pruned({**HARD, "start": 0, "end": 3, "every": 5}), 4)
    for name, own in matrices(tensors).items():
        assert zeros(own["weight"]) == zeros(own["mask"]) == round(0.7 * len(own["mask"])), name
