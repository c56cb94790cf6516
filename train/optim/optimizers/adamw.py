"""Adam with decoupled weight decay (arXiv 1711.05101)."""

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import torch
from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.train.optim.optimizers import OptimizerBuilder, OptimizerOptions


class AdamW(OptimizerBuilder):
    """torch's fused AdamW: one pass over weights and moments, on a GPU and on the CPU."""

    statistics = "element"
    bit_exact = False
    has_rates_of_adam = True
    states = 2
    keys = frozenset({"exp_avg", "exp_avg_sq"})

    @config_class
    class Options(OptimizerOptions):
        """Options of AdamW. RoBERTa: betas 0.9 and 0.98, eps 1e-6; GPT-3: 0.9 and 0.95, 1e-8."""

        betas: tuple[
            Annotated[float, Field(ge=0.0, lt=1.0)], Annotated[float, Field(ge=0.0, lt=1.0)]
        ] = (0.9, 0.98)
        """Decay of the first and second moment, 0 ≤ beta < 1."""
        eps: float = Field(default=1e-6, gt=0.0)
        """Added to the root of the second moment, > 0."""

    options: Options

    def build(self, groups: Sequence[dict[str, object]]) -> torch.optim.Optimizer:
        return _AdamW(
            list(groups),
            lr=self.options.peak_rate,
            betas=self.options.betas,
            eps=self.options.eps,
            fused=True,
        )


_STEP: Final[Callable[..., Any]] = inspect.unwrap(torch.optim.AdamW.step)


class _AdamW(torch.optim.AdamW):
    """torch's AdamW, without what its step needs only where an optimizer is compiled."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        return _STEP(self, closure)
