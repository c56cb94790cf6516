"""Gradual unfreezing (arXiv 1801.06146, section 3.3): the heads, then one more layer at a time."""

from __future__ import annotations

from collections.abc import Collection

from clozeline.configuration.config import Positive, config_class
from clozeline.train.hooks import HookContext
from clozeline.train.hooks._depth_freezing import DepthFreezing


class Unfreezing(DepthFreezing):
    """Trains the heads first, then one more layer from the top at a time, then the embeddings."""

    @config_class
    class Options:
        """Steps of each depth."""

        every: Positive
        """steps after which the next layer from the top is unfrozen, after the heads and before the
        embeddings"""

    options: Options

    def attach(self, context: HookContext) -> None:
        self._depths = sorted({group["depth"] for group in context.optimizer.param_groups})
        super().attach(context)

    def trained_depths(self, step: int) -> Collection[int]:
        return self._depths[: (step - 1) // self.options.every + 1]
