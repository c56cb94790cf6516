"""Adafactor against transformers', and rows without a gradient."""

import pytest
import torch
from transformers.optimization import Adafactor

from clozeline.train.registries import OPTIMIZERS
from tests.train.optim.optimizers.injected import gradient, stepped

SIZES = [1e-7, 1.0, 100.0]
"""Of the gradients of rows; those of the last row come once."""


@pytest.mark.parametrize("chosen", [{"learning_rate": 0.01}, {"learning_rate": 0.5, "eps": 0.3}])
@pytest.mark.parametrize("shape", [(3, 4), (3, 2, 4), (3,)])
def test_updates_are_those_of_transformers(chosen, shape):
    """The second rate is above 1 / sqrt(t), which cuts it."""
    ours, weight = (gradient("start", shape, 1) for _ in range(2))
    theirs = Adafactor(
        [weight], lr=1, eps=(chosen.get("eps", 1e-15) ** 2, 1e-3), relative_step=False
    )
    sizes = torch.tensor(SIZES).view(-1, *[1] * (len(shape) - 1))
    gradients = [gradient("w", shape, step) * sizes for step in range(1, 7)]
    for later in gradients[1:]:
        later[2] = 0

    group = {"name": "decay", "weight_decay": 0.0, "params": [ours]}
    stepped({"name": "adafactor", **chosen}, [group], [[each] for each in gradients])
    for step, weight.grad in enumerate(gradients, 1):
        theirs.param_groups[0]["lr"] = min(chosen["learning_rate"], step**-0.5)
        theirs.step()

    torch.testing.assert_close(ours, weight, rtol=2e-6, atol=2e-6)


def test_rows_without_a_gradient_stay_finite():
    """Such rows of a table have a second moment of zero."""
    table = torch.ones(6, 3)
    group = {"params": [table], "name": "decay", "weight_decay": 0.0}
    optimizer = OPTIMIZERS.resolve("adafactor").build().build([group])
    table.grad = torch.zeros(6, 3)
    table.grad[2] = 1.0
    optimizer.step()

    assert torch.equal(table[[0, 1, 3, 4, 5]], torch.ones(5, 3))
    assert (table[2] < 1).all()
