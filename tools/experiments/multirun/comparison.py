"""Compare two groups of runs by their seeds: means, deviations, and the interval of the difference of the means."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True)
class Difference:
    """The mean of one group of runs minus that of another.

    `low` and `high` bound the 95 % interval over the seeds of both (Welch 1947), `p` is one-sided. Equal seeds share at
    most the initial weights and the order of the rows, so seeds are not paired. With one run in a group, the variance
    over seeds is unknown: these three are None.
    """

    difference: float
    low: float | None = None
    high: float | None = None
    p: float | None = None

    @property
    def word(self) -> str:
        """`held` for an interval above 0, `not held` below 0, else `undecided`; `one seed` without an interval."""
        if self.low is None or self.high is None:
            return "one seed"
        return "held" if self.low > 0 else "not held" if self.high < 0 else "undecided"

    def text(self, digits: int) -> str:
        """Return the difference with its interval, if it has one."""
        interval = "" if self.low is None else f" [{self.low:+.{digits}f}, {self.high:+.{digits}f}]"
        return f"{self.difference:+.{digits}f}{interval}"


def difference_of(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Compare the means of two groups of runs.

    Example:
        >>> difference_of([0.9, 0.92], [0.8, 0.82]).text(2)
        '+0.10 [+0.04, +0.16]'
    """
    difference = fmean(first) - fmean(second)
    if min(len(first), len(second)) < 2:
        return Difference(difference)
    if not (stdev(first) or stdev(second)):
        return Difference(difference, difference, difference, float(difference == 0))
    from scipy.stats import ttest_ind

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one of the groups may have no spread
        test = ttest_ind(first, second, equal_var=False)
    interval = test.confidence_interval(0.95)
    return Difference(difference, float(interval.low), float(interval.high), float(test.pvalue) / 2)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """Return mean and sample standard deviation (n - 1), None for a single value."""
    return fmean(values), stdev(values) if len(values) > 1 else None


def mean_text(values: Sequence[float], digits: int) -> str:
    """Return `mean ± deviation`, or just the mean of a single value."""
    mean, deviation = mean_and_deviation(values)
    return f"{mean:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")
