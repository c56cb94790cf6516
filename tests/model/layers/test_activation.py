"""Activations against their formulas."""

import math

import pytest
import torch

from clozeline.model.layers.activation import ACTIVATIONS

FORMULAS = {
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: max(0.0, x),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "tanh": lambda x: (math.exp(x) - math.exp(-x)) / (math.exp(x) + math.exp(-x)),
    "identity": lambda x: x,
}


def test_every_activation_has_its_formula():
    assert ACTIVATIONS.keys() == FORMULAS.keys()


@pytest.mark.parametrize("name", FORMULAS)
def test_values_are_those_of_the_formula(name):
    points = torch.linspace(-6, 6, 97, dtype=torch.float64)
    wanted = torch.tensor([FORMULAS[name](x) for x in points.tolist()], dtype=torch.float64)
    assert torch.allclose(ACTIVATIONS[name](points), wanted, atol=1e-12)
    others = [other(points) for key, other in ACTIVATIONS.items() if key != name]
    assert all(not torch.allclose(other, wanted, atol=1e-6) for other in others)
