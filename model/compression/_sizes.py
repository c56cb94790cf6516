"""Options that say how much of a model stays: a count, or the share that is removed."""

from typing import Annotated, TypeAlias

import torch
from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.key_types import Width

Sparsity: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
"""Share of what is removed, in (0, 1)."""


@config_class
class StructureOptions:
    """Size of what stays in each layer: `keep` or `sparsity`, one of both."""

    keep: Width | None = None
    """Number that each layer keeps."""
    sparsity: Sparsity | None = None
    """Share that each layer loses, in (0, 1), rounded to entire ones; at least one stays."""

    def __post_init__(self) -> None:
        if (self.keep is None) == (self.sparsity is None):
            raise ValueError("expected keep, the number that stays, or sparsity, the share that goes: one of both")

    def kept_of(self, total: int, unit: str, group: int = 1) -> int:
        """Return how many of `total` each layer keeps; `group` of them stay or go together.

        Raises:
            ConfigurationError: there are fewer than `keep`, or it splits a group.

        Example:
            >>> StructureOptions(sparsity=0.5).kept_of(12, "heads"), StructureOptions(keep=4).kept_of(12, "heads", 2)
            (6, 4)
        """
        if self.keep is None:
            share = 1 - (self.sparsity or 0.0)
            return group * max(1, round(share * (total // group)))
        if self.keep > total:
            raise ConfigurationError(f"keep: expected at most the {total} {unit} of each layer, got {self.keep}")
        if self.keep % group:
            raise ConfigurationError(
                f"keep: {self.keep} {unit} do not divide into the groups of {group} that share keys and values; keep a "
                f"multiple of {group}"
            )
        return self.keep


def choose_best(scores: Tensor, count: int) -> Tensor:
    """Return the indices of the `count` highest scores, ascending; of equal ones the first.

    Example:
        >>> choose_best(torch.tensor([1.0, 3.0, 3.0, 3.0, 0.0]), 2).tolist()
        [1, 2]
    """
    return torch.sort(scores, descending=True, stable=True).indices[:count].sort().values
