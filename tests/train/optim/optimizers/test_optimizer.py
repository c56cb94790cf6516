"""The contract of optimizers, and what several of them share."""

from typing import Any

import pytest
import torch

from clozeline.tools.start.contracts.optimizers import CHECKS, prepare
from clozeline.train.optim.optimizers._optimizer import WholeParameterOptimizer, owners
from clozeline.train.optim.weights.flat_buffers import Segment
from clozeline.train.registries import OPTIMIZERS
from tests.contracts import contract
from tests.refusals import refused


@pytest.mark.parametrize("check", CHECKS)
@contract(OPTIMIZERS)
def test_contract(name, check):
    check(prepare({"name": name}))


class Recorder(WholeParameterOptimizer):
    seen: list[tuple[Any, ...]]

    def update(self, group, flats, gradients):
        steps, sums = self.states_of(flats, "sum")
        torch._foreach_add_(steps, 1)
        torch._foreach_add_(sums, gradients)
        self.seen.append(
            (
                group["name"],
                float(steps[0]),
                len(flats),
            )
        )
        assert all(gradient.is_contiguous() for gradient in gradients)


def test_updates_are_counted_for_each_parameter():
    weight = torch.zeros(2, 3)
    late = torch.zeros(3)
    idle = torch.zeros(2)
    optimizer = Recorder(
        [{"name": "decay", "params": [weight, late, idle], "weight_decay": 0.0}], 0.1
    )
    optimizer.seen = []

    for step in (1, 2):
        weight.grad = torch.arange(6.0).view(3, 2).T
        late.grad = torch.full((3,), 2.0) if step == 2 else None
        optimizer.step()
    # parameters of different ages are updated apart
    assert optimizer.seen == [("decay", 1, 1), ("decay", 2, 1), ("decay", 1, 1)]
    assert torch.equal(optimizer.state[weight]["sum"], 2 * torch.arange(6.0).view(3, 2).T)
    assert optimizer.state[weight]["step"] == 2
    assert idle not in optimizer.state


def held(**counts):
    return [
        Segment(name, (4, 4), torch.empty(0), "matrix", 0, 0, count)
        for name, count in counts.items()
    ]


def test_the_rank_with_most_of_a_matrix_computes_it_and_halves_go_to_the_one_that_has_less_to_do():
    """A matrix that is not cut counts before those that are, whatever their names.

    Of equal ranks, the first.
    """
    assert owners([held(a=16, b=5), held(b=11)]) == {"a": 0, "b": 1}
    assert owners([held(a=8, b=8, z=16), held(a=8, b=8)]) == {"z": 0, "a": 1, "b": 0}
    assert owners([held(a=8, b=8, z=64), held(a=8, b=8)]) == {"z": 0, "a": 1, "b": 1}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("adamw", {"betas": [0.9, 1.0]}),
        ("adamw", {"learning_rate": 0}),
        ("muon", {"momentum": 1.0}),
        ("muon", {"adam_rate": 0}),
    ],
)
def test_values_out_of_range_are_refused(name, change):
    with refused(next(iter(change))):
        OPTIMIZERS.resolve({"name": name, **change})
