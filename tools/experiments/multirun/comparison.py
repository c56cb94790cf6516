"""Compare two groups of runs: mean and deviation over seeds, confidence interval and p-value of their difference."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.seeding import hash64


@dataclass(frozen=True)
class ScoredRun:
    """Predictions of one run for the rows of a split, with its scores as `clozeline evaluate` prints them.

    `answers` and `predicted` are [n]; rows without a single answer have `units` instead: counts per sentence, question
    or text, [units, counts].
    """

    scores: dict[str, Any]
    facts: TaskFacts
    answers: NDArray[Any]
    predicted: NDArray[Any]
    units: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of rows, sentences, questions or texts to resample."""
        return len(self.answers) or max((len(unit_counts) for unit_counts in self.units.values()), default=0)

    def value(self, metric: str, rows: NDArray[Any]) -> float:
        """Return a metric of some rows, with repetitions."""
        from clozeline.tools.runs.evaluation.metrics import score
        from clozeline.tools.runs.evaluation.unit_sums import value_of

        if metric in self.units:
            return value_of(metric, self.units[metric][rows].sum(axis=0))
        return score(self.facts, self.answers[rows], self.predicted[rows])[metric]


@dataclass(frozen=True)
class Difference:
    """The mean of a metric over one group of runs minus that over another, on the same rows.

    `low` and `high` bound the 95 % confidence interval, `error` is the standard error and `p` the one-sided p-value.
    With one run in the smaller group (`seeds`), all of them reflect only the variance over rows.
    """

    difference: float
    low: float
    high: float
    error: float
    p: float
    seeds: int

    @property
    def word(self) -> str:
        """`held` for an interval above 0, `not held` below 0, else `undecided`; mentions a single seed."""
        word = "held" if self.low > 0 else "not held" if self.high < 0 else "undecided"
        return word if self.seeds > 1 else f"{word} over rows, one seed"


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """Return mean and sample standard deviation (n - 1), None for a single value."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def mean_text(values: Sequence[float], digits: int) -> str:
    """Return `mean ± deviation`, or just the mean of a single value."""
    mean, deviation = mean_and_deviation(values)
    return f"{mean:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")


def difference_of(
    first: Sequence[float], second: Sequence[float], resampled: NDArray[np.float64], rows: int
) -> Difference:
    """Compare the means of two groups of runs, considering the variance over rows and over seeds together.

    The variance of the difference has two parts: that over resamples of the rows, which all runs share, and that of the
    mean over the seeds of each group (Welch 1947), which equals a bootstrap that also draws k - 1 of k seeds (Rao and
    Wu 1988). Degrees of freedom follow Satterthwaite: percentiles of a few seeds would be too narrow. As many rows
    would lend degrees of freedom to few seeds of unequal spread, the interval is never narrower, and the p-value never
    smaller, than Welch's over the seeds alone. Seeds are not paired: equal seeds share at most the initial weights and
    the order of the rows. `resampled` holds differences of the means on resampled rows, of which there are `rows`.
    """
    row_variance, seed_variances = [(float(np.var(resampled)), rows - 1)], []
    seeds = min(len(first), len(second))
    if seeds > 1:
        seed_variances = [(float(np.var(group, ddof=1)) / len(group), len(group) - 1) for group in (first, second)]
    # the wider of both intervals: rows and seeds together, or seeds alone
    difference = float(np.mean(first) - np.mean(second))
    error, *total = _compute_spread(difference, row_variance + seed_variances)
    half_width, p = map(max, total, _compute_spread(difference, seed_variances)[1:])
    return Difference(difference, difference - half_width, difference + half_width, error, p, seeds)


def _compute_spread(difference: float, parts: Sequence[tuple[float, int]]) -> tuple[float, float, float]:
    """Return standard error, half the 95 % interval, and one-sided p, given variances and their degrees of freedom."""
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return 0.0, 0.0, float(difference == 0)
    error = math.sqrt(variance)
    degrees = variance**2 / sum(part**2 / part_degrees for part, part_degrees in parts if part)
    from scipy import stats

    return error, float(stats.t.ppf(0.975, degrees) * error), float(stats.t.sf(abs(difference) / error, degrees))


def compare_runs(
    first: Sequence[ScoredRun], second: Sequence[ScoredRun], metric: str, *, resamples: int = 1000, seed: int = 0
) -> Difference:
    """Compare two groups of runs by bootstrap over the same rows (Koehn 2004, W04-3250)."""
    sets = {run.scores["set"] for run in (*first, *second)}
    if len(sets) > 1:
        raise ConfigurationError(f"a comparison needs scores on one set, got {len(sets)}: {', '.join(sorted(sets))}")
    rows = first[0].rows
    draws = np.random.Generator(np.random.Philox(key=hash64("bootstrap", seed)))

    def values_on(indices: NDArray[Any]) -> list[list[float]]:
        return [[run.value(metric, indices) for run in group] for group in (first, second)]

    values = values_on(np.arange(rows))
    gaps = []
    for _ in range(resamples):
        means = [float(np.mean(group)) for group in values_on(draws.integers(0, rows, rows))]
        gaps.append(means[0] - means[1])
    return difference_of(values[0], values[1], np.array(gaps), rows)
