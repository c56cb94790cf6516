"""Random initial values of parameters.

A parameter's values are a pure function of (seed, name, shape). The order of construction, shared
weights, the number of ranks and the device do not matter.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
import xxhash
from torch import Tensor

Draw: TypeAlias = Callable[[Tensor, torch.Generator], object]
"""Fill a contiguous fp32 tensor on the host, in place, from a generator."""

_CHUNK = 1 << 20
"""Number of elements that are truncated at a time, which bounds the memory of a draw."""


def generator_for(seed: int, name: str) -> torch.Generator:
    """Return the generator of a parameter; on the host, torch uses 32 bits of its seed."""
    return torch.Generator().manual_seed(xxhash.xxh3_64_intdigest(f"{seed} {name}".encode()) >> 1)


def constant(value: float) -> Draw:
    """Fill a tensor with one value."""
    return lambda tensor, _: tensor.fill_(value)


def constant_per_gate(*values: float) -> Draw:
    """Fill concatenated biases of gates with one value per gate."""
    return lambda tensor, _: [
        part.fill_(value) for part, value in zip(tensor.chunk(len(values)), values, strict=True)
    ]


def uniform(bound: float) -> Draw:
    """Draw from the uniform distribution between -bound and bound."""
    return lambda tensor, generator: tensor.uniform_(-bound, bound, generator=generator)


def normal(deviation: float, cutoff: float | None = None) -> Draw:
    """Draw from N(0, deviation), truncated at `cutoff` standard deviations; None: not truncated."""
    if cutoff is None:
        return lambda tensor, generator: tensor.normal_(std=deviation, generator=generator)
    return lambda tensor, generator: _draw_within(tensor, deviation, cutoff, generator)


def _draw_within(
    tensor: Tensor, deviation: float, cutoff: float, generator: torch.Generator
) -> None:
    for chunk in torch.split(tensor.view(-1), _CHUNK):
        chunk.normal_(generator=generator)
        outside = (chunk.abs() > cutoff).nonzero().squeeze(1)
        while len(outside):
            again = chunk.new_empty(len(outside)).normal_(generator=generator)
            chunk[outside] = again
            outside = outside[again.abs() > cutoff]
    tensor.mul_(deviation)
