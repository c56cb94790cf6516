"""Launches of Muon's update, counted on a device without values: they multiply by shapes, not by parameters.

torch's lists of tensors are one launch each on a GPU, except in a product with a number for each tensor: as many as
tensors, which these counts leave out.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from clozeline.registry import choose
from clozeline.train.optim.weights.flat_buffers import Layout, Segment

SHAPES = {"up": (32, 8), "down": (8, 32), "bias": (32,), "norm": (8,)}


class Launches(TorchDispatchMode):
    """Counts calls of operators that are no views and read no scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not func.is_view and func is not torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def launches(layers: int, *, joined: bool) -> int:
    """Launches of the second update of matrices and vectors of so many layers."""
    builder = choose("clozeline.train.optim.optimizers", "muon").build()
    groups: list[dict[str, Any]] = []
    segments: list[list[Segment]] = []
    for group, decay, rank in (("matrix", 0.1, 2), ("no_decay", 0.0, 1)):
        shapes = [shape for _ in range(layers) for shape in SHAPES.values() if len(shape) == rank]
        sizes = [torch.Size(shape).numel() for shape in shapes]
        flats = [
            torch.empty(sum(sizes) if joined else shape, device="meta") for shape in shapes[: 1 if joined else None]
        ]
        groups.append({"name": group, "weight_decay": decay, "params": flats})
        found, begin = [], 0
        for index, (shape, size) in enumerate(zip(shapes, sizes, strict=True)):
            flat = flats[0 if joined else index]
            found.append(Segment(f"{group}{index:03d}", shape, flat, group, begin if joined else 0, 0, size))
            begin += size
        segments += [found] if joined else [[one] for one in found]
    optimizer = builder.build(groups)
    flats = [flat for group in groups for flat in group["params"]]
    builder.bind(optimizer, Layout(flats, [segments], 0))
    for flat in flats:
        flat.grad = torch.empty_like(flat)
    optimizer.step()
    with Launches() as counted:
        optimizer.step()
    return counted.count


@pytest.mark.parametrize("joined", [False, True], ids=["parameters", "flats of many"])
def test_launches_do_not_multiply_by_parameters(joined: bool) -> None:
    few, many = (launches(layers, joined=joined) for layers in (3, 30))
    assert few == many
    assert many <= 120


def test_a_launch_for_each_parameter_is_counted() -> None:
    with Launches() as counted:
        weights: list[Tensor] = [torch.empty(3, device="meta") for _ in range(5)]
        for weight in weights:
            weight.view(3, 1).mul_(2.0)
    assert counted.count == 10
