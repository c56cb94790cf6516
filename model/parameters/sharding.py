"""Parameters that an engine shards over ranks: how to build them, gather them, and find their full shape."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Placement:
    """Placement of the parameters of a new model: complete, or in parts over the ranks."""

    building: Callable[[], AbstractContextManager[Any]]
    """surrounds the construction of modules, each of which may leave its parameters sharded"""
    gather: Callable[[Sequence[nn.Parameter]], AbstractContextManager[Any]]
    """makes parameters complete inside a block, and keeps changes"""


UNSHARDED: Final = Placement(nullcontext, nullcontext)
"""All of each parameter on every rank."""


def full_shape(parameter: Tensor) -> torch.Size:
    """Return the shape of a parameter; DeepSpeed's ZeRO 3 leaves an empty tensor and keeps the shape in `ds_shape`."""
    return getattr(parameter, "ds_shape", parameter.shape)
