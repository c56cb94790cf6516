"""Parameters that a sharded engine holds in parts: how they are built, made whole inside a block, and their shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Placement:
    """Place of the parameters of a new model: whole, or in parts over the ranks."""

    building: Callable[[], AbstractContextManager[Any]]
    """surrounds the construction of modules, each of which may leave its parameters in parts"""
    gather: Callable[[Sequence[nn.Parameter]], AbstractContextManager[Any]]
    """makes parameters whole inside a block, and keeps what changed"""


WHOLE: Final = Placement(nullcontext, nullcontext)
"""All of each parameter on every rank."""


def full_shape(parameter: Tensor) -> torch.Size:
    """Return the shape of a parameter; DeepSpeed's ZeRO 3 leaves an empty tensor, with the shape beside it."""
    shape: torch.Size = getattr(parameter, "ds_shape", parameter.shape)
    return shape
