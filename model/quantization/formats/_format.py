"""The interface of number formats: how weights become integers and scales, and how a product reads them."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from clozeline.configuration.config import config_class


@config_class
class FormatOptions:
    """Keys that every format has."""

    embeddings: bool = False
    """The token table, and the projection onto the vocabulary, are quantized too, per row. A tied projection reads the
    integers of the table, so that both stay one tensor. false = both stay fp32."""
    stored: bool = False
    """The weights are stored as integers, which only `clozeline compress` writes; such a model is not trained. false =
    fp32 weights, rounded in each forward pass of the training (quantization-aware training)."""


class Format(ABC):
    """Integers and scales of weight matrices [outputs, inputs], and the products with them.

    `product` on stored integers and `fake_product` on the weights that they were made from return the same values: a
    model that was trained with the format computes what its export computes.

    Args:
        options: of the format.
    """

    Options: ClassVar[type[FormatOptions]]
    """Options, a frozen pydantic dataclass; the docstring of each field gives unit and range."""

    def __init__(self, options: Any) -> None:
        self.options = options

    def problem(self, inputs: int) -> str:
        """Return why a matrix of so many inputs cannot be stored, and what to do; "": it can."""
        return ""

    @abstractmethod
    def allocate(self, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
        """Return uninitialized integers and scales of a matrix, in the types and shapes of `quantize`."""

    @abstractmethod
    def quantize(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the integers and scales of a matrix [outputs, inputs], each weight rounded to the nearest."""

    @abstractmethod
    def dequantize(self, integers: Tensor, scales: Tensor) -> Tensor:
        """Return the fp32 values [outputs, inputs] of stored rows; any of the rows may be given alone."""

    @abstractmethod
    def round_weights(self, weight: Tensor) -> Tensor:
        """Return what `dequantize` gives after `quantize`, with straight-through gradients."""

    def prepare(self, integers: Tensor, scales: Tensor) -> Tensor | None:
        """Return the matrix that products read next to the integers, computed once; None: they read the integers."""
        return self.dequantize(integers, scales)

    def product(self, x: Tensor, integers: Tensor, scales: Tensor, prepared: Tensor | None) -> Tensor:
        """Return x [..., inputs] times the stored matrix, [..., outputs]."""
        weight = self.dequantize(integers, scales) if prepared is None else prepared
        return F.linear(x, weight.to(x.dtype))

    def fake_product(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return the product with fp32 weights as `product` computes it, with straight-through gradients."""
        return F.linear(x, self.round_weights(weight))


def round_straight_through(values: Tensor, limit: int) -> Tensor:
    """Round to the nearest integer in [-limit, limit]; the gradient is 1 inside this range and 0 outside.

    Example:
        >>> import torch
        >>> values = torch.tensor([0.4, -2.6, 9.0], requires_grad=True)
        >>> rounded = round_straight_through(values, 7)
        >>> rounded.sum().backward()
        >>> rounded.tolist(), values.grad.tolist()
        ([0.0, -3.0, 7.0], [1.0, 1.0, 0.0])
    """
    if torch.is_grad_enabled() and values.requires_grad:
        rounded: Tensor = _StraightThrough.apply(values, limit)  # type: ignore[no-untyped-call]
        return rounded
    return values.round().clamp_(-limit, limit)


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, limit: int) -> Tensor:
        # a value up to half a step outside still rounds into the range
        ctx.save_for_backward(values.abs() <= limit + 0.5)
        return values.round().clamp_(-limit, limit)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (inside,) = ctx.saved_tensors
        return gradient * inside, None
