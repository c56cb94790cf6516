"""Interface of regularizers, and the pull that they share."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import config_class


@config_class
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
    """fp32, one per element"""
    strength: Tensor
    """fp32, same shape, ≥ 0"""


class Regularizer(ABC):
    """Chooses anchors and strengths."""

    Options: ClassVar[type[RegularizerOptions]] = RegularizerOptions
    replaces_decay: ClassVar[bool] = False
    """It replaces the optimizer's weight decay."""

    def __init__(self, options: RegularizerOptions) -> None:
        self.options = options

    @abstractmethod
    def anchor(self, name: str, weight: Tensor, start: int, *, fresh: bool) -> Anchored:
        """Return anchors and strengths of elements of a parameter at the start of a run.

        `weight` are the elements `[start, start + len(weight))` of the flattened parameter, fp32. A `fresh` parameter
        is new in this run, not from `model.init_from`.
        """


def pull(weight: Tensor, anchor: Tensor, strength: Tensor, rate: float) -> None:
    """Move weights to the minimum of s/2 (v - a)² + (v - w)² / 2r over v, in place."""
    share = rate * strength
    weight.sub_((weight - anchor).mul_(share / (1.0 + share)))


def push(gradient: Tensor, weight: Tensor, anchor: Tensor, strength: Tensor) -> None:
    """Add the penalty's gradient, in place."""
    gradient.add_((weight - anchor).mul_(strength))
