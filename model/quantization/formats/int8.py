"""Symmetric int8: weights per output channel, activations per token (arXiv 1712.05877, 1910.06188)."""

from __future__ import annotations

import time
from functools import cache
from statistics import median
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

from clozeline.configuration.config import config_class
from clozeline.model.quantization.formats._format import Format, FormatOptions, round_straight_through

_LIMIT: Final = 127
_SMALLEST_GPU_PRODUCT: Final = 17
"""Rows from which torch's int8 product runs on CUDA; widths must be multiples of 8 there."""


class Int8(Format):
    """q = round(w / s) with s = max |w| / 127 over each row of the matrix, so that the error is at most s / 2.

    Activations are rounded in the same way, with a scale for each token, just before the product. Integers are
    multiplied and added without error; one fp32 product by both scales follows. On a CPU the product is torch's int8
    kernel where that is faster than fp32, else an fp32 product of the same integers: equal to the bit below 1,040
    inputs, whose sums fp32 holds exactly. The second needs as much memory as fp32 weights: it saves disk only.

    Example (one row, scale 0.5 / 127):
        >>> import torch
        >>> from clozeline.model.quantization.formats.int8 import Int8
        >>> integers, scales = Int8(Int8.Options()).quantize(torch.tensor([[0.5, -0.25, 0.0]]))
        >>> integers.tolist(), round(scales.item(), 6)
        ([[127, -64, 0]], 0.003937)
    """

    options: Options

    @config_class
    class Options(FormatOptions):
        """Configuration of int8: the keys of every format."""

    def allocate(self, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(outputs, inputs, dtype=torch.int8), torch.zeros(outputs)

    def quantize(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            integers, scales = _round_rows(weight)
        return integers.to(torch.int8), scales.squeeze(-1)

    def dequantize(self, integers: Tensor, scales: Tensor) -> Tensor:
        return integers * scales[..., None]

    def round_weights(self, weight: Tensor) -> Tensor:
        integers, scales = _round_rows(weight)
        return integers * scales

    def prepare(self, integers: Tensor, scales: Tensor) -> Tensor | None:
        if integers.device.type == "cpu" and not is_integer_product_faster():
            return integers.float()
        return None

    def product(self, x: Tensor, integers: Tensor, scales: Tensor, prepared: Tensor | None) -> Tensor:
        # round the tokens [N, inputs]
        tokens, token_scales = _round_rows(x.flatten(0, -2))
        # sums of integers [N, outputs]
        if prepared is not None:
            sums = F.linear(tokens, prepared)
        elif x.is_cuda and (len(tokens) < _SMALLEST_GPU_PRODUCT or any(size % 8 for size in integers.shape)):
            sums = F.linear(tokens, integers.float())
        else:
            sums = torch._int_mm(tokens.to(torch.int8), integers.t()).float()
        # back to real values
        return sums.mul_(token_scales).mul_(scales).to(x.dtype).view(*x.shape[:-1], -1)

    def fake_product(self, x: Tensor, weight: Tensor) -> Tensor:
        tokens, token_scales = _round_rows(x)
        integers, scales = _round_rows(weight)
        # the same products in the same order as `product`
        return (F.linear(tokens, integers) * token_scales * scales.squeeze(-1)).to(x.dtype)


def _round_rows(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return integers in fp32 and the scale [..., 1] of each row; scales have no gradient."""
    values = values.float()
    scales = values.detach().abs().amax(-1, keepdim=True) / _LIMIT
    scales = torch.where(scales == 0, 1.0, scales)  # a row of zeros
    return round_straight_through(values / scales, _LIMIT), scales


@cache
def is_integer_product_faster() -> bool:
    """Return whether this CPU multiplies int8 matrices faster than fp32 ones; measured once in each process."""
    x, weight = torch.ones(128, 512), torch.ones(512, 512)
    tokens, integers = x.to(torch.int8), weight.to(torch.int8)
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(7):  # interleaved, so that other processes slow both
        start = time.perf_counter()
        torch._int_mm(tokens, integers.t())
        between = time.perf_counter()
        F.linear(x, weight)
        seconds[0].append(between - start)
        seconds[1].append(time.perf_counter() - between)
    return median(seconds[0]) < median(seconds[1])
