"""Compare two groups of runs: mean and deviation over seeds, the interval and the p-value of their difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from clozeline.errors import ConfigurationError
from clozeline.seeding import hash64
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.tools.runs.evaluation.metrics import score
from clozeline.tools.runs.evaluation.unit_sums import value_of


@dataclass(frozen=True)
class ScoredRun:
    """Predictions of one run for the rows of a split.

    Args:
        scores: of the run, as `clozeline evaluate` prints them.
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
    """The mean of a metric over one group of runs less that over another, on the same rows.

    Args:
        difference: of the means.
        low: lower end of the interval of 95 %.
        high: upper end of the interval of 95 %.
        error: standard error of the difference.
        p: one-sided p-value: the probability of at least this difference where there is none.
        seeds: runs of the smaller group; with one, the interval and the p-value know the chance of the rows alone.
    """

    difference: float
    low: float
    high: float
    error: float
    p: float
    seeds: int

    @property
    def word(self) -> str:
        """`held` with an interval above 0, `not held` below it, else `undecided`; one seed is said with the word."""
        word = "held" if self.low > 0 else "not held" if self.high < 0 else "undecided"
        return word if self.seeds > 1 else f"{word} over rows, one seed"


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and the deviation of a sample (n - 1); of one value there is no deviation."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def mean_text(values: Sequence[float], digits: int) -> str:
    """Return `mean ± deviation`; of one value the mean alone."""
    mean, deviation = mean_and_deviation(values)
    return f"{mean:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")


def difference_of(
    first: Sequence[float], second: Sequence[float], resampled: NDArray[np.float64], rows: int
) -> Difference:
    """Compare the means of two groups of runs, by the chance of the rows and of the seeds together.

    The variance of the difference has two parts: that over resamples of the rows, which all runs share, and that of the
    mean over the seeds of each group (Welch 1947), which is what a bootstrap that also draws k - 1 of k seeds has
    (Rao and Wu 1988). Degrees of freedom are those of Satterthwaite: percentiles of a few seeds would be too narrow. As
    many rows would lend degrees of freedom to few seeds of unequal spread, the interval is never narrower, and the
    p-value never smaller, than Welch's of the seeds alone. Seeds are not paired: equal seeds share at most the first
    weights and the order of the rows.

    Args:
        first: metric of each run of one group, over all rows.
        second: that of the other group.
        resampled: differences of the means on resampled rows.
        rows: number of rows, or of other units, that were drawn.
    """
    of_rows, of_seeds = [(float(np.var(resampled)), rows - 1)], []
    seeds = min(len(first), len(second))
    if seeds > 1:
        of_seeds = [(float(np.var(group, ddof=1)) / len(group), len(group) - 1) for group in (first, second)]
    difference = float(np.mean(first) - np.mean(second))
    together, alone = _spread(difference, of_rows + of_seeds), _spread(difference, of_seeds)
    reach, p = max(together.reach, alone.reach), max(together.p, alone.p)
    return Difference(difference, difference - reach, difference + reach, together.error, p, seeds)


class _Spread(NamedTuple):
    """Standard error of a difference, half of its interval of 95 %, and the one-sided p-value."""

    error: float
    reach: float
    p: float


def _spread(difference: float, parts: Sequence[tuple[float, int]]) -> _Spread:
    """Return the spread of a difference from the parts of its variance, each with its degrees of freedom."""
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return _Spread(0.0, 0.0, float(difference == 0))
    error = math.sqrt(variance)
    freedom = variance**2 / sum(part**2 / of_part for part, of_part in parts if part)
    reach, p = stats.t.ppf(0.975, freedom) * error, stats.t.sf(abs(difference) / error, freedom)
    return _Spread(error, float(reach), float(p))


def compare_runs(
    first: Sequence[ScoredRun], second: Sequence[ScoredRun], metric: str, *, resamples: int = 1000, seed: int = 0
) -> Difference:
    """Compare two groups of runs on the same rows, which are drawn with replacement (Koehn 2004, W04-3250).

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
    draws = np.random.Generator(np.random.Philox(key=hash64("bootstrap", seed)))
    gaps = [_gap(first, second, metric, draws.integers(0, rows, rows)) for _ in range(resamples)]
    values = [[run.value(metric, np.arange(rows)) for run in group] for group in (first, second)]
    return difference_of(values[0], values[1], np.array(gaps), rows)


def _gap(first: Sequence[ScoredRun], second: Sequence[ScoredRun], metric: str, rows: NDArray[Any]) -> float:
    means = [np.mean([run.value(metric, rows) for run in group]) for group in (first, second)]
    return float(means[0] - means[1])
