"""Adafactor against torch's, and stacks of matrices cut anywhere."""

import pytest
import torch

from clozeline.train.registries import OPTIMIZERS
from tests.train.optim.optimizers.injected import SIZES, gradient, start_weights, whole_update


@pytest.mark.parametrize(
    "chosen", [{"learning_rate": 0.01, "eps": 1e-6}, {"learning_rate": 0.5, "eps": 0.3}]
)
def test_updates_are_those_of_torch(monkeypatch, chosen):
    """With stacks of matrices too; the second rate is above 1 / sqrt(t), which cuts it."""
    monkeypatch.setitem(SIZES, "filters", (3, 2, 4))
    found = whole_update({"name": "adafactor", **chosen}, 6)
    weights = start_weights()
    groups = [
        {
            "params": [weights[name] for name in SIZES if (len(SIZES[name]) > 1) == high],
            "weight_decay": 0.1 * high,
        }
        for high in (True, False)
    ]

    theirs = torch.optim.Adafactor(
        groups, lr=chosen["learning_rate"], eps=(chosen["eps"], 1e-3), foreach=False
    )

    for step in range(1, 7):
        for name, weight in weights.items():
            weight.grad = gradient(name, SIZES[name], step)
        theirs.step()

    for name, weight in weights.items():
        torch.testing.assert_close(found[name], weight.detach(), rtol=2e-6, atol=2e-6)


def test_rows_without_a_gradient_stay_finite():
    """Such rows of a table have a second moment of zero."""
    table = torch.ones(6, 3)
    group = {"params": [table], "name": "decay", "weight_decay": 0.0}
    optimizer = OPTIMIZERS.resolve({"name": "adafactor", "eps": 1e-18}).build().build([group])
    table.grad = torch.zeros(6, 3)
    table.grad[2] = 1.0
    optimizer.step()

    assert torch.equal(table[[0, 1, 3, 4, 5]], torch.ones(5, 3))
    assert (table[2] < 1).all()
