"""Heads: what hidden states are asked for in training. One file each, chosen by the keys of `model.heads`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from model.config import ModelConfig

__all__ = ["Head"]


class Head(nn.Module, ABC):
    """A loss on hidden states, summed over what it counts."""

    Options: ClassVar[type[ModelConfig]] = ModelConfig
    needs: ClassVar[frozenset[str]]
    """Tensors it reads from a batch, besides the family's and `row_weight`."""

    @abstractmethod
    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Summed loss, an fp32 scalar; without labels it is 0 and still has a gradient path to every parameter."""

    @abstractmethod
    def counted(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """What the sum runs over, as an integer scalar on the batch's device: a function of inputs alone."""

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """Scores at every place: [B, T, dim] to [B, T, classes]."""

    def count(self, tensors: Mapping[str, Tensor]) -> int:
        """`counted` as a number; free for a batch that is still on the host."""
        return int(self.counted(tensors))

    def flops(self) -> float:
        """Floating-point operations of the forward for one counted place: each entry of a matrix is used once."""
        return 2.0 * sum(parameter.numel() for parameter in self.parameters() if parameter.ndim == 2)
