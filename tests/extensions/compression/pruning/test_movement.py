"""Movement pruning against a plain loop over weights, masks and scores."""

import pytest
import torch
from torch import nn

from clozeline.extensions.compression.registries import PRUNING
from tests.extensions.compression.pruning.pruned import matrices, plain_adamw, pruned, train, zeros
from tests.refusals import refused
from tests.train.synthetic import VOCABULARY, random_rows

HARD = {"name": "movement", "keep": 0.3, "start": 1, "end": 6}
SOFT = {"name": "movement", "mode": "soft", "threshold": 0.495, "penalty": 50.0, "end": 6}
CASE = {"prune": {"keep": 0.3, "end": 6}}


def plain_loop(world, config, options):
    """One process: the model holds W' = W * mask.

    DL/dS = dL/dW' * W and dL/dW = dL/dW' * mask, clipped as dL/dW'.
    """
    from clozeline.model.build import build_model

    model = build_model(config.model, VOCABULARY, {}, seed=1)
    named = dict(model.named_parameters())
    dense = {name: nn.Parameter(p.detach().clone()) for name, p in named.items()}
    layers = [
        name
        for name, p in named.items()
        if ".layers." in name and name.endswith(".weight") and p.dim() == 2
    ]

    scores = {name: nn.Parameter(torch.zeros_like(dense[name])) for name in layers}
    masks = {name: torch.ones_like(dense[name]) for name in layers}
    optimizer = plain_adamw(dense.values())
    trainer = torch.optim.Adam(scores.values(), lr=1.0)
    schedule = config.schedule.build(8)
    losses = []
    soft = options.get("mode") == "soft"
    start = options.get("start", 0)
    total = sum(own.numel() for own in scores.values())

    for step in range(1, 9):
        part = 1.0 if step >= 6 else 1 - (1 - max(step - start, 0) / (6 - start)) ** 3
        for group in (*optimizer.param_groups, *trainer.param_groups):
            group["lr"] = (0.01 if group in trainer.param_groups else 0.003) * schedule(step)
        with torch.no_grad():
            for name, p in named.items():
                p.copy_(dense[name] * masks.get(name, 1))

        loss = model(random_rows(step, 8, 0, 8))["masked_lm"]
        (loss.total / loss.count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for name, p in named.items():
            dense[name].grad = p.grad * masks.get(name, 1)
        for name, own in scores.items():
            own.grad = named[name].grad * dense[name].detach()
        if soft:
            (50.0 * part * sum(own.sigmoid().sum() for own in scores.values()) / total).backward()
        optimizer.step()
        trainer.step()
        model.zero_grad()

        for name, own in scores.items():
            if soft:
                masks[name] = (own.detach().sigmoid() > 0.495 * part).float()
            elif step >= start:
                lowest = (
                    own.detach().flatten().argsort(stable=True)[: round(0.7 * part * own.numel())]
                )
                masks[name] = torch.ones(own.numel()).index_fill_(0, lowest, 0.0).view_as(own)

            for key in ("exp_avg", "exp_avg_sq"):
                optimizer.state[dense[name]][key].mul_(masks[name])

        losses.append(float(loss.total.detach()) / loss.count)

    states = {"scores": scores, "mask": masks, "dense": dense}
    return losses, {
        name: {key: of[name].detach().flatten() for key, of in states.items()} for name in layers
    }


@pytest.mark.parametrize(("options", "stage"), [(HARD, 3), (SOFT, 0)])
def test_a_step_is_that_of_scores_as_parameters(one_rank, two_ranks, options, stage):
    ((expected, states),) = one_rank.run(plain_loop, pruned(options), options)

    for measured, tensors in (two_ranks if stage else one_rank).run(
        train, pruned(options, zero__stage=stage)
    ):
        assert [loss for loss, _ in measured] == pytest.approx(expected, rel=2e-4)
        for name, own in matrices(tensors).items():
            assert torch.equal(own["weight"], own["dense"] * own["mask"]), name
            assert (own["mask"] != states[name]["mask"]).float().mean() < 0.01, name
            torch.testing.assert_close(own["scores"], states[name]["scores"], rtol=0.02, atol=2e-4)
            torch.testing.assert_close(own["dense"], states[name]["dense"], rtol=0.02, atol=2e-4)


def test_weights_stay_masked_between_two_choices_of_masks(one_rank):
    ((_, tensors),) = one_rank.run(train, pruned({**HARD, "start": 0, "end": 3, "every": 5}), 4)
    for name, own in matrices(tensors).items():
        assert zeros(own["weight"]) == zeros(own["mask"]) == round(0.7 * len(own["mask"])), name


@pytest.mark.parametrize("key", ["threshold", "penalty"])
def test_keys_of_the_soft_mode_are_refused_in_the_hard_one(key):
    with refused(rf"{key}: has no effect with mode 'hard'"):
        PRUNING.resolve(HARD | {key: 0.4})
