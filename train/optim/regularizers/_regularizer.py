"""The interface of regularizers, and the pull that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from clozeline.configuration.config import STRICT


@dataclass(frozen=True, kw_only=True, config=STRICT)
class RegularizerOptions:
    """Options that every regularizer has."""

    explicit: bool = Field(
        default=False,
        description="add the penalty's gradient before the optimizer's step instead of pulling after it; it diverges "
        "where rate x strength exceeds 2",
    )


class Anchored(NamedTuple):
    """Anchor and strength of some elements of a parameter."""

    anchor: Tensor
    """fp32, as many as the elements"""
    strength: Tensor
    """fp32, likewise, ≥ 0"""


class Regularizer(ABC):
    """A choice of anchors and strengths."""

    Options: ClassVar[type[RegularizerOptions]] = RegularizerOptions
    replaces_decay: ClassVar[bool] = False
    """True if it replaces the optimizer's weight decay."""

    def __init__(self, options: RegularizerOptions) -> None:
        self.options = options

    @abstractmethod
    def anchor(self, name: str, weight: Tensor, start: int, *, fresh: bool) -> Anchored:
        """Return anchor and strength of elements of a parameter, from which the run begins.

        Args:
            name: of the parameter.
            weight: elements `[start, start + len(weight))` of the flattened parameter, fp32.
            start: number of the first.
            fresh: the parameter is new in this run; it is not among those that `model.init_from` gave.

        Raises:
            ConfigurationError: the anchors are not for this model.
        """


def pull(weight: Tensor, anchor: Tensor, strength: Tensor, rate: float) -> None:
    """Move weights towards their anchors in place: the minimum of s/2 (v - a)² + (v - w)² / 2r over v.

    Nothing changes where the strength is 0 or the weight is at its anchor.
    """
    share = rate * strength
    weight.sub_((weight - anchor).mul_(share / (1.0 + share)))


def push(gradient: Tensor, weight: Tensor, anchor: Tensor, strength: Tensor) -> None:
    """Add the penalty's gradient to that of the loss in place."""
    gradient.add_((weight - anchor).mul_(strength))
