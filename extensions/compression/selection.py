"""Select what to remove from a model: layers and matrices by name, parts and weights by score."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

import torch
from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.key_types import Width

_LAYER: Final = re.compile(r"(family\.(?:(?:stack|encoder|decoder)\.)?layers\.)(\d+)\.(.+)")
_MIN_INT32: Final = -(2**31)
_MAX_INT32: Final = 2**31 - 1

Scope: TypeAlias = Literal["local", "global"]
"""local: a share of each matrix; global: a share of all of them together."""
Sparsity: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
"""Share to remove, in (0, 1)."""


@config_class
class SparsityOptions:
    """Share of zeros, and which weights compete."""

    sparsity: Sparsity
    """share of the weights that become 0, in (0, 1)"""
    scope: Scope = "local"
    """local: this share of each matrix; global: of all matrices together"""


@config_class
class StructureOptions:
    """Size of what stays in each layer: either `keep` or `sparsity`."""

    keep: Width | None = None
    """Number that each layer keeps."""
    sparsity: Sparsity | None = None
    """Share that each layer loses, in (0, 1), rounded; at least one part stays."""

    def __post_init__(self) -> None:
        if (self.keep is None) == (self.sparsity is None):
            raise ValueError(
                "set either keep, the number that stays, or sparsity, the share that is removed"
            )

    def count_kept(self, total: int, unit: str, group: int = 1) -> int:
        """Return how many of `total` each layer keeps; a `group` stays or is removed together.

        Raises:
            ConfigurationError: there are fewer than `keep`, or `keep` splits a group.

        Example:
            >>> StructureOptions(sparsity=0.5).count_kept(12, "heads")
            6
            >>> StructureOptions(keep=4).count_kept(12, "heads", 2)
            4
        """
        if self.keep is None:
            share = 1 - (self.sparsity or 0.0)
            return group * max(1, round(share * (total // group)))

        if self.keep > total:
            raise ConfigurationError(
                f"keep: expected at most the {total} {unit} of each layer, got {self.keep}"
            )

        if self.keep % group:
            raise ConfigurationError(
                f"keep: {self.keep} {unit} split a group of {group} that shares keys and values; "
                f"keep a multiple of {group}"
            )

        return self.keep


def split_name(name: str) -> tuple[str, int, str] | None:
    """Return stack, layer index and remaining name of a parameter; None outside the layers.

    Example:
        >>> split_name("family.stack.layers.3.feed_forward.body.up.weight")
        ('family.stack.layers.', 3, 'feed_forward.body.up.weight')
    """
    match = _LAYER.fullmatch(name)
    return None if match is None else (match[1], int(match[2]), match[3])


def find_matrices(shapes: Mapping[str, Sequence[int]], key: str, family: str) -> list[str]:
    """Return the weights of linear maps in layers, the only ones that are masked.

    They have the order of the parameters' `shapes`.

    Raises:
        ConfigurationError: there are none; `key` and `family` are for the message.
    """
    matrices = [
        name for name, shape in shapes.items() if len(shape) == 2 and name.endswith(".weight")
    ]
    if not (in_layers := [name for name in matrices if split_name(name) is not None]):
        raise ConfigurationError(
            f"{key}: nothing to prune: expected a family with layers of linear maps, got {family}"
        )
    return in_layers


def choose_best(scores: Tensor, count: int) -> Tensor:
    """Return the indices of the `count` highest scores, ascending; the first of equal scores.

    Example:
        >>> choose_best(torch.tensor([1.0, 3.0, 3.0, 3.0, 0.0]), 2).tolist()
        [1, 2]
    """
    return torch.sort(scores, descending=True, stable=True).indices[:count].sort().values


def choose_share(
    values: Iterable[Tensor], sizes: Sequence[int], share: float, scope: Scope, *ranks: Any
) -> list[Tensor]:
    """Return masks that are True at the lowest values of matrices.

    They cover a share of each matrix, of these `sizes`, or of all together (`scope`).

    `ranks` are the last arguments of `choose_lowest`.
    """
    if scope == "global":
        return choose_lowest(values, [0] * len(sizes), [round(share * sum(sizes))], *ranks)
    return choose_lowest(values, range(len(sizes)), [round(share * size) for size in sizes], *ranks)


def choose_lowest(
    values: Iterable[Tensor],
    groups: Sequence[int],
    counts: Sequence[int],
    rank: int = 0,
    size: int = 1,
    total: Callable[[Tensor], Tensor] = lambda numbers: numbers,
) -> list[Tensor]:
    """Return masks that are True at the `counts[g]` lowest values of each group g over all ranks.

    Of equal values, the first are chosen. Bisection over the bits of a float finds the threshold of
    each group: 32 exchanges of one number per group, whatever the size of the parameters. The
    result does not depend on the number of ranks.

    Args:
        values: this rank's elements of each parameter, 1-D, compared as fp32; the ranks hold
            consecutive ranges of it, in order.
        groups: for each parameter, the group of values that it competes with.
        counts: number of values to choose in each group.
        rank: this rank.
        size: number of ranks.
        total: function that sums float64 numbers over the ranks.

    Example:
        >>> choose_lowest([torch.tensor([3.0, -1.0]), torch.tensor([0.5, 2.0])], [0, 0], [2])
        [tensor([False,  True]), tensor([ True, False])]
    """
    # int32 numbers in the order of fp32 values; both zeros are equal
    bits = [(part.float() + 0.0).contiguous().view(torch.int32) for part in values]
    keys = [part.bitwise_xor_((part >> 31).bitwise_and_(_MAX_INT32)) for part in bits]
    device = keys[0].device
    goals = torch.tensor(counts, dtype=torch.float64)

    def count_below(thresholds: Sequence[int]) -> Tensor:
        numbers = torch.zeros(len(counts), dtype=torch.float64, device=device)
        for key, group in zip(keys, groups, strict=True):
            numbers[group] += (key <= thresholds[group]).sum()
        return total(numbers).cpu()

    # the lowest threshold of each group with at least `counts` values up to it
    low = torch.full((len(counts),), _MIN_INT32, dtype=torch.int64)
    high = torch.full((len(counts),), _MAX_INT32, dtype=torch.int64)
    while bool((low < high).any()):
        middle = torch.div(low + high, 2, rounding_mode="floor")
        enough = count_below(middle.tolist()) >= goals
        high = torch.where(enough, middle, high)
        low = torch.where(enough, low, middle + 1)

    masks = [key < int(low[group]) for key, group in zip(keys, groups, strict=True)]
    # number of values below and at the threshold, [parameter, rank]
    numbers = torch.zeros(2, len(keys), size, dtype=torch.float64, device=device)
    for index, (key, group) in enumerate(zip(keys, groups, strict=True)):
        numbers[0, index, rank] = masks[index].sum()
        numbers[1, index, rank] = (key == int(low[group])).sum()

    below, equal = total(numbers).cpu()
    # values at the threshold fill what is missing: by parameter, then rank, then element
    missing = list(counts)
    for index, group in enumerate(groups):
        missing[group] -= int(below[index].sum())
    for index, group in enumerate(groups):
        for holder in range(size):
            taken = max(0, min(missing[group], int(equal[index, holder])))
            missing[group] -= taken
            if holder == rank and taken:
                masks[index][torch.nonzero(keys[index] == int(low[group])).flatten()[:taken]] = True

    return masks
