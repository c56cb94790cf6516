"""Symmetric int4 weights in groups of inputs, two in a byte; activations stay in floating point."""

from __future__ import annotations

from typing import Annotated, Final

import torch
from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.model.quantization.formats._format import Format, FormatOptions, round_straight_through

LIMIT: Final = 7


class Int4(Format):
    """q = round(w / s) in [-7, 7], with an fp16 scale s for each group of consecutive inputs of a row.

    s is max |w| / 7, rounded up to fp16, so that the error of each weight is at most s / 2. With groups of 64 a weight
    takes 4.25 bits. There is no int4 product here: the weights are dequantized once, when they are first used. That
    saves disk only.

    Example (two groups of two inputs):
        >>> import torch
        >>> from clozeline.model.quantization.formats.int4 import Int4
        >>> int4 = Int4(Int4.Options(group=2))
        >>> packed, scales = int4.quantize(torch.tensor([[0.875, -0.25, 1.75, 0.5]]))
        >>> packed.tolist(), scales.tolist(), int4.dequantize(packed, scales).tolist()
        ([[111, 175]], [[0.125, 0.25]], [[0.875, -0.25, 1.75, 0.5]])
    """

    options: Options

    @config_class
    class Options(FormatOptions):
        """Configuration of int4."""

        group: Annotated[int, Field(ge=2, le=2**20, multiple_of=2)] = 64
        """Inputs that share a scale, an even divisor of the width of every quantized matrix."""

    def problem(self, inputs: int) -> str:
        group = self.options.group
        if inputs % group == 0:
            return ""
        fitting = max((size for size in range(2, group + 1, 2) if inputs % size == 0), default=None)
        remedy = f"set group={fitting}" if fitting else "use int8"
        return f"groups of {group} inputs do not divide its width {inputs}; {remedy}"

    def allocate(self, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
        scales = torch.zeros(outputs, inputs // self.options.group, dtype=torch.float16)
        return torch.zeros(outputs, inputs // 2, dtype=torch.uint8), scales

    def quantize(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            groups = split_groups(weight.float(), self.options.group)
            scales = group_scales(groups)
            integers = round_straight_through(groups / scales.float(), LIMIT)
        return pack(integers.flatten(-2).to(torch.int8)), scales.squeeze(-1)

    def dequantize(self, integers: Tensor, scales: Tensor) -> Tensor:
        groups = split_groups(unpack(integers), self.options.group)
        return (groups * scales.float()[..., None]).flatten(-2)

    def round_weights(self, weight: Tensor) -> Tensor:
        groups = split_groups(weight.float(), self.options.group)
        scales = group_scales(groups.detach()).float()
        return (round_straight_through(groups / scales, LIMIT) * scales).flatten(-2).to(weight.dtype)


def split_groups(weight: Tensor, group: int) -> Tensor:
    """Return [..., inputs] as [..., groups, group]."""
    return weight.reshape(*weight.shape[:-1], -1, group)


def group_scales(groups: Tensor) -> Tensor:
    """Return the fp16 scales [..., 1] of groups [..., size]: the smallest s with max |w| <= 7 s; 1 for zeros."""
    largest = groups.abs().amax(-1, keepdim=True).float()
    scales = (largest / LIMIT).to(torch.float16)
    # fp16 rounds to the nearest: take the next larger number where that is too small for the largest weight
    scales = torch.where(scales.float() * LIMIT < largest, (scales.view(torch.int16) + 1).view(torch.float16), scales)
    return torch.where(largest == 0, torch.ones_like(scales), scales)


def pack(integers: Tensor) -> Tensor:
    """Return integers in [-8, 7], [..., inputs] int8, as bytes [..., inputs / 2]: an even input is in the low half."""
    halves = (integers + 8).to(torch.uint8)
    return halves[..., ::2] | (halves[..., 1::2] << 4)


def unpack(packed: Tensor) -> Tensor:
    """Return the integers [..., inputs] int8 of packed bytes [..., inputs / 2]."""
    halves = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)
    return halves.to(torch.int8) - 8
