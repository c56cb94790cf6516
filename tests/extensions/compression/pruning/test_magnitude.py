"""Gradual magnitude pruning: the steps of a plain loop, and exact shares of zeros."""

import pytest
import torch

from tests.extensions.compression.pruning.pruned import matrices, plain_adamw, pruned, train, zeros
from tests.train.synthetic import VOCABULARY, random_rows

GRADUAL = {"name": "magnitude", "sparsity": 0.7, "start": 1, "end": 6, "every": 2}


def plain_loop(world, config):
    """One process, by the book: AdamW, then the smallest |w| of each matrix are 0, with their
    moments."""
    from clozeline.model.build import build_model

    model = build_model(config.model, VOCABULARY, {}, seed=1)
    named = dict(model.named_parameters())
    optimizer = plain_adamw(named.values())
    schedule = config.schedule.build(8)
    losses = []
    layers = [
        name
        for name in named
        if ".layers." in name and name.endswith(".weight") and named[name].dim() == 2
    ]

    removed = {name: torch.zeros_like(named[name], dtype=torch.bool) for name in layers}

    for step in range(1, 9):
        for group in optimizer.param_groups:
            group["lr"] = 0.003 * schedule(step)
        loss = model(random_rows(step, 8, 0, 8))["masked_lm"]
        (loss.total / loss.count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for name, gone in removed.items():
            named[name].grad[gone] = 0
        optimizer.step()
        optimizer.zero_grad()

        if step in (1, 3, 5, 6):
            share = 0.7 - 0.7 * (1 - (step - 1) / 5) ** 3
            for name, gone in removed.items():
                weight = named[name].detach()
                order = weight.abs().masked_fill(gone, 0).flatten().argsort(stable=True)
                gone.view(-1)[order[: round(share * weight.numel())]] = True

        with torch.no_grad():
            for name, gone in removed.items():
                for tensor in (
                    named[name],
                    *(v for v in optimizer.state[named[name]].values() if v.dim()),
                ):
                    tensor[gone] = 0

        losses.append(float(loss.total.detach()) / loss.count)

    return losses, {name: {"weight": p.detach().flatten()} for name, p in named.items()}


def test_a_step_is_that_of_a_plain_loop(one_rank, two_ranks):
    ((expected, weights),) = one_rank.run(plain_loop, pruned(GRADUAL))

    for pool, stage in ((one_rank, 0), (two_ranks, 2), (two_ranks, 3)):
        for measured, tensors in pool.run(train, pruned(GRADUAL, zero__stage=stage)):
            assert [loss for loss, _ in measured] == pytest.approx(expected, rel=5e-6), stage
            for name, own in matrices(tensors).items():
                assert zeros(own["weight"]) == zeros(weights[name]["weight"])
                differing = ((own["weight"] == 0) != (weights[name]["weight"] == 0)).sum()
                assert differing <= 2, (stage, name, "rounding may exchange two at the threshold")


def test_the_share_of_zeros_is_exact_and_only_matrices_of_layers_have_them(one_rank):
    ((_, tensors),) = one_rank.run(train, pruned({**GRADUAL, "scope": "global"}))
    own = matrices(tensors)

    assert len(own) == 12

    counts = {name: zeros(states["weight"]) for name, states in own.items()}
    sizes = {name: states["weight"].numel() for name, states in own.items()}

    assert sum(counts.values()) == round(0.7 * sum(sizes.values()))
    assert counts != {name: round(0.7 * size) for name, size in sizes.items()}

    for name, states in tensors.items():
        if name in own:
            gone = states["weight"] == 0
            assert torch.equal(states["mask"], 1 - gone.float()), name
            assert not states["exp_avg"][gone].any(), name
            assert not states["exp_avg_sq"][gone].any(), name
        elif "weight" in name and ".norm." not in name:
            assert not zeros(states["weight"]), name


CASE = {"prune": {key: value for key, value in GRADUAL.items() if key != "name"} | {"end": 3}}
"""The masks are last chosen before half of the run, where a resume comes: they alone keep weights
at 0."""
