"""Lottery tickets: rounds of magnitude pruning, each from the weights of the start."""

import torch

from clozeline.extensions.compression.registries import PRUNING
from tests.extensions.compression.pruning.pruned import matrices, pruned, started, tensors_of, zeros
from tests.refusals import refused
from tests.train.synthetic import train_steps

ROUNDS = {"name": "lottery", "sparsity": 0.6, "rounds": 2, "every": 3}
RUN = {"model__init_from": "elsewhere"}
CASE = {"prune": {key: value for key, value in ROUNDS.items() if key != "name"}, "run": RUN}


def tickets(**changes):
    return pruned({**ROUNDS, **changes.pop("prune", {})}, **RUN, **changes)


def rounds(world, config):
    """Tensors at the start, before and after each of two rewinds, and two steps later."""
    engine = started(config, world)
    tensors = [tensors_of(engine, world)]
    for first, last in ((1, 2), (3, 3), (4, 6), (7, 8)):
        train_steps(engine, first, last)
        tensors.append(tensors_of(engine, world))

    engine.close()
    return tensors


def test_a_round_prunes_and_rewinds_to_the_start(two_ranks):
    start, before, first, second, end = two_ranks.run(rounds, tickets(zero__stage=3))[0]

    for share, tensors in ((0.3, first), (0.6, second)):
        own = matrices(tensors)

        assert sum(zeros(states["mask"]) for states in own.values()) == round(
            share * sum(len(states["mask"]) for states in own.values())
        )

        for name, states in tensors.items():
            assert torch.equal(states["weight"], start[name]["weight"] * states.get("mask", 1)), (
                name
            )
            assert not states["exp_avg"].any()
            assert not states["exp_avg_sq"].any()

    for name, states in matrices(first).items():
        # the second round keeps the zeros of the first
        assert bool((second[name]["mask"] <= states["mask"]).all())
        assert torch.equal(end[name]["mask"], second[name]["mask"])
        assert not torch.equal(before[name]["weight"], start[name]["weight"])
        assert not torch.equal(end[name]["weight"], second[name]["weight"])
        assert zeros(end[name]["weight"]) == zeros(second[name]["mask"])


def masks_by_hand(world, config):
    """Train without pruning for a round, and sort all |w|."""
    engine = started(config, world)
    train_steps(engine, 1, 3)
    own = matrices(tensors_of(engine, world))
    engine.close()
    order = torch.cat([states["weight"] for states in own.values()]).abs().sort().values
    limit = order[round(0.3 * len(order)) - 1]
    return {
        name: {"mask": (states["weight"].abs() > limit).float()} for name, states in own.items()
    }


def test_the_first_round_prunes_the_smallest_trained_weights(one_rank):
    (by_hand,) = one_rank.run(masks_by_hand, pruned(None))
    first = matrices(one_rank.run(rounds, tickets())[0][2])
    assert all(torch.equal(states["mask"], by_hand[name]["mask"]) for name, states in first.items())


def test_rounds_that_leave_no_step_are_refused():
    method = PRUNING.resolve({"name": "lottery", "rounds": 2, "every": 4}).build()

    with refused(r"rounds x every: expected fewer than 8 steps, .* got 8"):
        method.describe_plan(8)
