"""Scores of several runs as mean and deviation, and how likely a difference of two such groups is chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ConfigurationError
from pipeline.seeding import keyed_hash
from pipeline.task_readers import TaskFacts
from tools.evaluation.metrics import score
from tools.evaluation.unit_sums import value_of

__all__ = ["Difference", "ScoredRun", "mean_and_deviation", "paired_bootstrap"]


@dataclass(frozen=True)
class ScoredRun:
    """Predictions of one run for the rows of a split.

    Args:
        scores: of the run, as `tools/evaluate.py` prints them.
        facts: of the task.
        answers: of the set, [n].
        predicted: of the model, [n].
        units: metrics as numbers of sentences, questions or texts, [units, numbers], of rows that have no one answer.
    """

    scores: dict[str, Any]
    facts: TaskFacts
    answers: NDArray[Any]
    predicted: NDArray[Any]
    units: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows, or sentences, questions, texts, that are drawn."""
        return len(self.answers) or max((len(one) for one in self.units.values()), default=0)

    def value(self, metric: str, rows: NDArray[Any]) -> float:
        """Return a metric of some rows, which may be there several times."""
        if metric in self.units:
            return value_of(metric, self.units[metric][rows].sum(axis=0))
        return score(self.facts, self.answers[rows], self.predicted[rows])[metric]


@dataclass(frozen=True)
class Difference:
    """The mean metric of one group less that of another, over the same rows.

    Args:
        difference: of the means.
        low: 2.5 % of the resamples are below.
        high: 2.5 % of the resamples are above.
        p: share of resamples in which the sign is not that of the difference: one-sided, at least 1 / (resamples + 1).
    """

    difference: float
    low: float
    high: float
    p: float


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and the deviation of a sample (n - 1); of one value there is no deviation."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def paired_bootstrap(
    first: Sequence[ScoredRun], second: Sequence[ScoredRun], metric: str, *, resamples: int = 1000, seed: int = 0
) -> Difference:
    """Compare two groups of runs on the same rows, which are drawn with replacement (Koehn 2004, W04-3250).

    Each resample of rows gives the mean metric of each group, over its runs; the p-value says how often the order
    turns. It knows the chance of the rows, not that of further seeds: print the deviation over seeds beside it.

    Args:
        first: runs of one group.
        second: runs of the other.
        metric: of the task.
        resamples: number of draws of all rows.
        seed: of the draws.

    Raises:
        ConfigurationError: the groups were not scored on one set.
    """
    sets = {run.scores["set"] for run in (*first, *second)}
    if len(sets) > 1:
        raise ConfigurationError(f"a comparison needs scores on one set, got {len(sets)}: {', '.join(sorted(sets))}")
    rows = first[0].rows
    whole = _gap(first, second, metric, np.arange(rows))
    draws = np.random.Generator(np.random.Philox(key=keyed_hash("bootstrap", seed)))
    gaps = [_gap(first, second, metric, draws.integers(0, rows, rows)) for _ in range(resamples)]
    turned = sum(gap <= 0 if whole > 0 else gap >= 0 for gap in gaps)
    low, high = np.percentile(gaps, [2.5, 97.5])
    return Difference(whole, float(low), float(high), (turned + 1) / (resamples + 1))


def _gap(first: Sequence[ScoredRun], second: Sequence[ScoredRun], metric: str, rows: NDArray[Any]) -> float:
    means = [np.mean([run.value(metric, rows) for run in group]) for group in (first, second)]
    return float(means[0] - means[1])
