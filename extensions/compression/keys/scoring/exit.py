"""Measure early exit in an evaluation.

The rule says when rows leave; counted are the layers and FLOPs that they used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.tools.command import Natural
from clozeline.tools.runs.scoring_keys import Computed, ScoringKey

if TYPE_CHECKING:  # they import torch, which a command line does not need
    from torch import Tensor

    from clozeline.extensions.compression.early_exit import ExitRule
    from clozeline.model.build import Model


@config_class
class ExitConfig(ScoringKey):
    """Rows leave at the first classifier that is sure, {entropy: 0.3}, or agrees, {patience: 2}.

    For a head that was trained with `exits`; by default, all layers read all rows.
    """

    entropy: Annotated[float, Field(ge=0.0)] | None = None
    """leave at the first classifier whose entropy is below this, in nats"""
    patience: Natural | None = None
    """leave when so many classifiers in a row have agreed with the one before them"""
    tolerance: Annotated[float, Field(gt=0.0)] | None = None
    """patience of a regression: numbers that differ by less agree"""

    def __post_init__(self) -> None:
        if (self.entropy is None) == (self.patience is None):
            raise ValueError("exit: expected entropy or patience, such as {entropy: 0.3}")

    def rule(self) -> ExitRule:
        """Return the rule for `EarlyExit`."""
        from clozeline.extensions.compression.early_exit import Entropy, Patience

        return (
            Patience(self.patience, self.tolerance)
            if self.patience is not None
            else Entropy(self.entropy or 0.0)
        )

    def wrap(self, model: Model, head: str) -> ExitingModel:
        return ExitingModel(model, head, self)

    @staticmethod
    def describe(used: Mapping[str, Any]) -> str:
        share = f"{100 * used['layers'] / used['of']:.1f} % of {used['of']} layers"
        return f"{share}, {100 * used['flops']:.1f} % of the FLOPs: {used['rule']}"

    def __str__(self) -> str:
        return (
            f"entropy below {self.entropy}"
            if self.patience is None
            else f"patience {self.patience}"
        )


class ExitingModel(Computed):
    """A model whose rows leave early, with counts of the layers they used."""

    def __init__(self, model: Model, head: str, options: ExitConfig) -> None:
        from clozeline.extensions.compression.early_exit import EarlyExit

        self.early = EarlyExit(model, head).eval()
        self.rule = options.rule()
        self.layers = model.config.layers
        self.counts = [0.0, 0.0, 0.0, 0.0]
        """rows, the layers that read them, FLOPs, and FLOPs of all layers"""

    def __call__(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the scores of a batch, and count its rows."""
        exits = self.early(tensors, self.rule)
        used = (len(exits.depths), exits.depths.sum(), exits.flops.sum(), exits.dense.sum())
        self.counts = [count + float(more) for count, more in zip(self.counts, used, strict=True)]
        scores: Tensor = exits.scores
        return scores

    def usage(self, counts: Sequence[Sequence[float]]) -> dict[str, float]:
        """Return the mean number of layers used, of how many, and the share of the FLOPs.

        The counts are summed over all ranks.
        """
        rows, layers, flops, dense = (sum(column) for column in zip(*counts, strict=True))
        return {
            "layers": layers / max(1.0, rows),
            "of": self.layers,
            "flops": flops / max(1.0, dense),
        }
