"""Exponential moving average of the weights, which is evaluated and exported.

It is partitioned, saved and resumed like the fp32 masters. The decay of the t-th update is
min(decay, (1 + t) / (10 + t)): even a short run forgets its initial weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.model.configuration.capabilities import AVERAGE, STATES_ON_DEVICE
from clozeline.train.hooks import Hook, HookContext, StepInfo


class Average(Hook):
    """Averages each weight after each step that was not skipped."""

    keys = frozenset({AVERAGE})
    numbers = 1
    needs: ClassVar = {STATES_ON_DEVICE}

    @config_class
    class Options:
        """The decay."""

        decay: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.999
        """decay of the average, > 0, < 1; in the t-th update at most (1 + t) / (10 + t)"""

    options: Options

    def attach(self, context: HookContext) -> None:
        self._flats = [flat for flat, _ in context.flats]

    def begin(self, step: StepInfo) -> None:
        """Start from the current weights, unless a checkpoint contained averages."""
        for flat in self._flats:
            if flat not in self.of:
                self.of[flat] = {AVERAGE: flat.detach().clone()}

    def end(self, step: StepInfo, norm: float) -> Mapping[str, Any]:
        if norm < float("inf"):
            updates = step.index - step.skipped
            share = 1.0 - min(self.options.decay, (1 + updates) / (10 + updates))
            for flat, states in self.of.items():
                states[AVERAGE].lerp_(flat.detach(), share)
        return {}
