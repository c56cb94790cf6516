"""Measure the accuracy of a classifier by mean depth and by tokens kept."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from torch import Tensor

from clozeline.extensions.compression.keys.scoring.exit import ExitConfig, ExitingModel
from clozeline.extensions.compression.token_pruning import TokenPruning
from clozeline.extensions.compression.token_rules import TopTokens
from clozeline.extensions.tasks.task_run import open_task_run

ENTROPIES: Final = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7)
"""Thresholds in nats; two classes have at most ln 2 = 0.693."""
SHARES: Final = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
"""Share of the tokens that each layer passes on, of those that it read."""
Point = tuple[str, float, float]
"""A rule, what it uses, and the accuracy."""


def measure_exits(run: Path) -> list[Point]:
    """Return (rule, mean depth, accuracy) of a run with off-ramps, by entropy."""
    opened = open_task_run(run, "dev")

    def pass_rows(rule: ExitConfig) -> Point:
        exiting = ExitingModel(opened.trained.model, opened.head, rule)
        accuracy = replace(opened, compute=exiting).metrics()["accuracy"]
        return str(rule), exiting.usage([exiting.counts])["layers"], accuracy

    return [pass_rows(ExitConfig(entropy=entropy)) for entropy in ENTROPIES]


def measure_tokens(run: Path) -> list[Point]:
    """Return (rule, mean share of the tokens that a layer's feed-forward block reads, accuracy)."""
    opened = open_task_run(run, "dev")
    model = opened.trained.model
    layers = model.config.layers

    def pass_rows(share: float) -> Point:
        kept = tuple(share**layer for layer in range(1, layers + 1))
        pruning = TokenPruning(model, TopTokens(kept))
        counts = [0, 0]

        def compute(batch: dict[str, Tensor]) -> Tensor:
            counts[0] += int(pruning.prune(batch).kept.sum())
            counts[1] += int(batch["lengths"].sum()) * layers
            return pruning.logits(batch)[opened.head]

        accuracy = replace(opened, compute=compute).metrics()["accuracy"]
        return f"each layer keeps {share}", counts[0] / counts[1], accuracy

    return [pass_rows(share) for share in SHARES]
