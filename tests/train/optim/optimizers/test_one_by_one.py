"""Updates of many parameters together against slow forms that update one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.train.optim.optimizers import injected
from tests.train.optim.optimizers.injected import MATRICES, Weights, cut_update, gradient, start_weights, whole_update

SIZES = {
    "a": (6, 4),
    "b": (6, 4),
    "filters": (2, 3, 4),
    "c": (6, 4),
    "wide": (4, 6),
    "more": (2, 3, 4),
    "d": (6, 4),
} | {f"vector {size} {index}": (size,) for size in (5, 3) for index in range(2)}
CUTS = {MATRICES: (55, 60, 60), "no_decay": (6, 6, 6)}
RATE, DECAY = 0.01, 0.1
Update = Callable[[Tensor, Tensor, float, int, dict[str, Tensor]], None]


def size_of(tensor: Tensor) -> Tensor:
    """Root mean square, summed in float64."""
    return tensor.square().mean(dtype=torch.float64).sqrt()


def adafactor(weight: Tensor, pushed: Tensor, decay: float, step: int, state: dict[str, Tensor]) -> None:
    squares, eps = pushed.square(), 1.1920929e-07
    if weight.dim() == 1:
        moment = state.setdefault("variance", torch.zeros_like(weight)).lerp_(squares, step**-0.8)
    else:
        row, column = (squares.mean(axis, keepdim=True, dtype=torch.float64).float() for axis in (-1, -2))
        row = state.setdefault("row", torch.zeros_like(row)).lerp_(row, step**-0.8)
        column = state.setdefault("column", torch.zeros_like(column)).lerp_(column, step**-0.8)
        moment = row * column / row.mean(-2, keepdim=True).clamp(min=eps)
    direction = pushed * moment.clamp(min=eps**2).rsqrt()
    rate = min(RATE, step**-0.5) * size_of(weight).clamp(min=1e-3) / size_of(direction).clamp(min=1.0)
    weight.mul_(1 - RATE * decay).sub_(direction * rate.float())


FORMS: dict[str, Update] = {"adafactor": adafactor}


def muon(weight: Tensor, pushed: Tensor, decay: float, step: int, state: dict[str, Tensor], **own: Any) -> None:
    """Of one matrix, by products of two matrices."""
    momentum = state.setdefault("momentum", torch.zeros_like(weight)).lerp_(pushed, 0.05)
    x = pushed.lerp(momentum, 0.95).to(own["dtype"])
    x = x.T if (high := weight.size(0) > weight.size(1)) else x
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    weight.mul_(1 - RATE * decay).add_(x.T if high else x, alpha=-RATE * 0.2 * max(weight.shape) ** 0.5)


def slowly(update: Update, steps: int) -> Weights:
    weights, states = start_weights(), {name: {} for name in injected.SIZES}
    for step in range(1, steps + 1):
        for name, weight in weights.items():
            decay = DECAY if weight.dim() > 1 else 0.0
            update(weight, gradient(name, weight.shape, step), decay, step, states[name])
    return weights


@pytest.mark.parametrize("name", FORMS)
def test_parameters_of_equal_shape_are_updated_as_one_by_one(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Together, and in flats cut anywhere to the same bits."""
    monkeypatch.setattr(injected, "SIZES", SIZES)
    chosen = {"name": name, "learning_rate": RATE, "weight_decay": DECAY}
    found, expected = whole_update(chosen, 6), slowly(FORMS[name], 6)
    for weight, parts in cut_update(chosen, 6, CUTS).items():
        torch.testing.assert_close(found[weight], expected[weight], rtol=1e-6, atol=1e-6)
        assert torch.equal(parts, found[weight]), weight


@pytest.mark.parametrize("iterate_in", ["bf16", "fp32"])
def test_stacked_matrices_are_updated_as_one_by_one(monkeypatch: pytest.MonkeyPatch, iterate_in: str) -> None:
    matrices = {name: shape for name, shape in SIZES.items() if len(shape) != 3}
    monkeypatch.setattr(injected, "SIZES", matrices)
    chosen = {"name": "muon", "learning_rate": RATE, "iterate_in": iterate_in}
    found = whole_update(chosen, 4)
    dtype = torch.bfloat16 if iterate_in == "bf16" else torch.float32
    expected = slowly(lambda *own: muon(*own, dtype=dtype) if own[0].dim() == 2 else None, 4)
    parts = cut_update(chosen, 4, {MATRICES: (50, 40, 30), "no_decay": (6, 6, 6)})
    for name, shape in matrices.items():
        if len(shape) == 2:
            tolerance = 2e-3 if iterate_in == "bf16" else 1e-6
            torch.testing.assert_close(found[name], expected[name], rtol=tolerance, atol=tolerance)
        assert torch.equal(parts[name], found[name]), name
