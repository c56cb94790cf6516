"""Estimate the gradient noise scale (arXiv 1812.06162, appendix A).

It is the batch size above which more rows hardly help. The expected squared norm of the mean
gradient of b rows is |G|² + tr(Σ) / b, with the gradient G of all data and the covariance Σ of
single rows. Micro-batches and the global batch are two sizes b, which give both unknowns. The noise
scale is tr(Σ) / |G|², in rows. Both are noisy: divide only sums over many steps.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import torch
from torch import Tensor

from clozeline.model.configuration.capabilities import STATES_ON_DEVICE
from clozeline.report.recorded_series import RecordedSeries
from clozeline.train.hooks import Hook, HookContext, StepInfo

_AVERAGED_RECORDS: Final = 100
"""Records over which the noise scale is averaged; a single step is mostly noise."""


class GradientNoise(Hook):
    """Records tr(Σ) and |G|² as `gradient_noise`; needs several micro-batches per step.

    It sums squared norms of this rank's gradients, before ZeRO partitions and averages them.
    """

    priority = 2
    charts = (
        RecordedSeries(
            name="Gradient noise scale",
            keys=("gradient_noise", "trace"),
            per=("gradient_noise", "square"),
            unit="rows",
            window=_AVERAGED_RECORDS,
            headline=True,
        ),
    )
    observes = True
    needs: ClassVar = {STATES_ON_DEVICE}

    @classmethod
    def check(cls, config: Any) -> None:
        """Refuse steps of a single micro-batch."""
        data = config.data
        smallest = min(
            phase.global_batch or data.global_batch for phase in data.all_phases.values()
        )
        if data.batch_tokens is None and data.micro_batch == smallest:
            expected = (
                f"expected data.micro_batch below the global batch of {smallest} rows, got "
                f"{data.micro_batch}"
            )
            raise ValueError(
                f"hooks: gradient_noise: compares the micro-batches of a step: {expected}"
            )

    def attach(self, context: HookContext) -> None:
        self._model = context.model
        self._world = context.world
        self._square: Tensor | float = 0.0
        for parameter in context.model.parameters():
            if parameter.requires_grad:
                parameter.register_hook(self._observe)  # type: ignore[no-untyped-call]

    def begin(self, step: StepInfo) -> None:
        # over the micro-batches of the step with labels: squared norms of their mean gradients,
        # labels of the global batch / labels of the micro-batch, and their number
        self._squares: Tensor | float = 0.0
        self._inverse = 0.0
        self._count = 0
        self._counts = step.counts

    def _observe(self, gradient: Tensor) -> None:
        norm = torch.linalg.vector_norm(gradient.detach(), dtype=torch.float32)
        self._square = self._square + norm.double().square()

    def after_backward(self, batch: Mapping[str, Tensor]) -> None:
        if share := self._label_share(batch):
            self._squares = self._squares + self._square / (share * self._world.size) ** 2
            self._inverse += 1 / share
            self._count += 1
        self._square = 0.0

    def _label_share(self, batch: Mapping[str, Tensor]) -> float:
        """Return a micro-batch's share of the labels, by which its gradient was scaled."""
        weights = {
            name: weight for name, weight in self._model.loss_weights.items() if self._counts[name]
        }
        divisors = self._model.divisors
        parts = [
            weight * divisors[name].count(batch) / self._counts[name]
            for name, weight in weights.items()
        ]
        return float(sum(parts) / sum(weights.values())) if parts else 0.0

    def end(self, step: StepInfo, norm: float) -> Mapping[str, Any]:
        if not step.recorded:
            return {}
        square, inverse, count = self._world.sum_over_ranks(
            [float(self._squares), self._inverse, float(self._count)]
        )
        noise = estimate(square, inverse, count, norm, step.rows)
        return {} if noise is None else {"gradient_noise": noise}


def estimate(
    square: float, inverse: float, count: float, norm: float, rows: int
) -> dict[str, float] | None:
    """Return tr(Σ) as `trace` and |G|² as `square` for a step; None with a single micro-batch.

    Args:
        square: squared norms of the mean gradients of micro-batches, summed over all ranks.
        inverse: labels of the global batch / labels of the micro-batch, summed in the same way.
        count: micro-batches in these sums.
        norm: gradient norm of the global batch.
        rows: rows of the global batch.

    Example: micro-batches of 1 row with squared norms 5, 7, 6, 6 and a batch of these 4 with 3 give
    tr(Σ) 4, |G|² 2.
    """
    if count == 0 or inverse / count <= 1.0 or not norm < float("inf"):
        return None
    trace = (square / count - norm**2) / ((inverse / count - 1.0) / rows)
    return {"trace": trace, "square": norm**2 - trace / rows}
