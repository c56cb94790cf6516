"""Estimate the gradient noise scale, the batch size above which more rows hardly help (arXiv 1812.06162, appendix A).

The expected squared norm of the mean gradient of b rows is |G|² + tr(Σ) / b, with the gradient G of all data and the
covariance Σ of single rows. Micro-batches and the global batch are two sizes b, which give both unknowns. The noise
scale is tr(Σ) / |G|², in rows; both are noisy, so divide only sums over many steps.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Squares:
    """Sums over the micro-batches of a step on this rank that have labels."""

    square: Tensor | float = 0.0
    """squared norms of their mean gradients, float64"""
    inverse: float = 0.0
    """labels of the global batch / labels of the micro-batch"""
    count: int = 0


class MicroBatchSquares:
    """Accumulates squared norms of this rank's gradients, before ZeRO partitions and averages them."""

    def __init__(self, model: nn.Module, world_size: int) -> None:
        self._world_size = world_size
        self._square: Tensor | float = 0.0
        self._sums = Squares()
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_hook(self._observe)  # type: ignore[no-untyped-call]

    def _observe(self, gradient: Tensor) -> None:
        norm = torch.linalg.vector_norm(gradient.detach(), dtype=torch.float32)
        self._square = self._square + norm.double().square()

    def end(self, share: float) -> None:
        """End a micro-batch with this share of the global batch's labels, by which its gradient was scaled."""
        if share > 0:
            self._sums.square = self._sums.square + self._square / (share * self._world_size) ** 2
            self._sums.inverse += 1 / share
            self._sums.count += 1
        self._square = 0.0

    def take(self) -> Squares:
        """Return the sums of a step and reset them."""
        sums, self._sums = self._sums, Squares()
        return sums


def estimate(square: float, inverse: float, count: float, norm: float, rows: int) -> dict[str, float] | None:
    """Return the estimates of a step, tr(Σ) as `trace` and |G|² as `square`; None with a single micro-batch.

    `square`, `inverse` and `count` are those of `Squares`, summed over all ranks; gradient norm and rows are those of
    the global batch.

    Example: micro-batches of 1 row with squared norms 5, 7, 6, 6 and a batch of these 4 with 3 give tr(Σ) 4, |G|² 2.
    """
    if count == 0 or inverse / count <= 1.0 or not norm < float("inf"):
        return None
    trace = (square / count - norm**2) / ((inverse / count - 1.0) / rows)
    return {"trace": trace, "square": norm**2 - trace / rows}
