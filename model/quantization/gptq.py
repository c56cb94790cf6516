"""GPTQ (arXiv 2210.17323): round a matrix column by column, each error spread over the columns that are left."""

from typing import Final

import torch
from torch import Tensor

from clozeline.model.quantization.formats._format import round_straight_through
from clozeline.model.quantization.formats.int4 import LIMIT, group_scales

DAMPING: Final = 0.01
"""Share of the mean diagonal that is added to the diagonal of the second moments (section 3.3 of the paper)."""


def round_with_moments(weight: Tensor, moments: Tensor, group: int) -> tuple[Tensor, Tensor]:
    """Return the integers [outputs, inputs] int8 and fp16 scales [outputs, groups] of a matrix, by GPTQ.

    The columns of inputs are rounded from left to right. The rounding error of a column changes the columns to its
    right so that the outputs on the calibration rows change least. A group's scale is chosen when its first column is
    reached, from the changed weights.

    Args:
        weight: [outputs, inputs].
        moments: sum of x x^T over the calibration inputs x, [inputs, inputs].
        group: inputs that share a scale, a divisor of inputs.
    """
    # inverse of the damped moments, as the upper Cholesky factor: row j holds what column j needs of the inverse over
    # the columns from j on (section 3.3)
    remaining, moments = weight.double().clone(), moments.double()
    mean = float(moments.diagonal().mean())
    identity = torch.eye(len(moments), dtype=torch.float64)
    damped = moments + identity * (DAMPING * mean if mean > 0 else 1.0)
    factor = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(damped)), upper=True)
    integers = torch.empty(weight.shape, dtype=torch.int8)
    scales = torch.empty(len(weight), weight.shape[1] // group, dtype=torch.float16)
    for start in range(0, weight.shape[1], group):
        stop = start + group
        scale = group_scales(remaining[:, start:stop].float())
        scales[:, start // group] = scale[:, 0]
        errors = torch.empty(len(weight), group, dtype=torch.float64)
        for column in range(start, stop):
            own = remaining[:, column]
            rounded = round_straight_through(own / scale[:, 0], LIMIT)
            integers[:, column] = rounded.to(torch.int8)
            error = (own - rounded * scale[:, 0]) / factor[column, column]
            errors[:, column - start] = error
            # within the group at once, in all later groups after its last column
            remaining[:, column + 1 : stop] -= error[:, None] * factor[column, column + 1 : stop]
        remaining[:, stop:] -= errors @ factor[start:stop, stop:]
    return integers, scales
