"""Convert tensors from the names and layouts of the original program to those of transformers."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from torch import Tensor

from clozeline.errors import WeightsError


class Origin(NamedTuple):
    """A name of the original program, and its counterpart in transformers."""

    pattern: str
    """of the complete name"""
    names: tuple[str, ...]
    """with the pattern's groups, `{0}`; several for a tensor that is split into as many along its outputs"""
    interleaved: int = 0
    """number of names, from the first on, of outputs whose rotation pairs neighbors in a head, instead of component i
    with i + head_dim / 2"""
    by_head: bool = False
    """the parts of a split tensor alternate from head to head"""


def from_origin(
    tensors: Mapping[str, Tensor], origins: Iterable[Origin], head_dim: int, where: str
) -> dict[str, Tensor]:
    """Return tensors whose names match a pattern under transformers' names; the others unchanged."""
    converted: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        names, parts = [name], [tensor]
        for origin in origins:
            if match := re.fullmatch(origin.pattern, name):
                names = [template.format(*match.groups()) for template in origin.names]
                parts = _split(tensor, len(names), head_dim if origin.by_head else None)
                parts[: origin.interleaved] = [_halves(part, head_dim) for part in parts[: origin.interleaved]]
                break
        for present, part in zip(names, parts, strict=True):
            if present in converted:
                raise WeightsError(f"{where}: {name} and another tensor are both {present}; expected one")
            converted[present] = part
    return converted


def _split(tensor: Tensor, parts: int, head_dim: int | None) -> list[Tensor]:
    """Return equal parts along the outputs: end to end, or those of each head in turn."""
    if parts == 1 or head_dim is None:
        return list(tensor.chunk(parts)) if parts > 1 else [tensor]
    return [part.flatten(0, 1) for part in tensor.view(-1, parts, head_dim, *tensor.shape[1:]).unbind(1)]


def _halves(weight: Tensor, head_dim: int) -> Tensor:
    """Return the rows of each head with the first of every pair before the second of every pair.

    Example (one head of width 4):
        >>> import torch
        >>> _halves(torch.tensor([[0], [1], [2], [3]]), 4).flatten().tolist()
        [0, 2, 1, 3]
    """
    return weight.view(-1, head_dim // 2, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
