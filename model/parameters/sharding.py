"""Build, gather and measure parameters that an engine shards over ranks."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Placement:
    """How the parameters of a new model are placed: complete, or in parts over the ranks."""

    building: Callable[[], AbstractContextManager[Any]]
    """context for the construction of modules, which may leave their parameters sharded"""
    gather: Callable[[Sequence[nn.Parameter]], AbstractContextManager[Any]]
    """makes parameters complete inside a block, and keeps changes"""


UNSHARDED: Final = Placement(nullcontext, nullcontext)
"""Every rank has all parameters."""
SHAPES: Final = Placement(lambda: torch.device("meta"), nullcontext)
"""No rank has a value: a model to count, of any size."""


def full_shape(parameter: Tensor) -> torch.Size:
    """Return the complete shape of a parameter, which ZeRO stage 3 keeps in `ds_shape`."""
    return getattr(parameter, "ds_shape", parameter.shape)
