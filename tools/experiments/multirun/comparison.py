"""Compare groups of runs by their seeds: mean ± standard deviation of a group, difference of the means of two."""

from collections.abc import Sequence
from statistics import fmean, stdev


def mean_text(values: Sequence[float], digits: int) -> str:
    """Return `mean ± deviation`, with the sample standard deviation (n - 1), or just the mean of a single value."""
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{deviation}"


def difference_text(first: Sequence[float], second: Sequence[float], digits: int) -> str:
    """Return the mean of one group of runs minus that of another, `±` the sum of both standard deviations over seeds.

    A difference within that sum says nothing: the ranges mean ± deviation overlap. With one run in a group, nothing is
    known about its seeds, and the text says so.

    Example:
        >>> difference_text([0.9, 0.92], [0.8, 0.82], 2)
        '+0.10 ± 0.03'
    """
    difference = f"{fmean(first) - fmean(second):+.{digits}f}"
    if min(len(first), len(second)) < 2:
        return f"{difference} (one seed)"
    return f"{difference} ± {stdev(first) + stdev(second):.{digits}f}"
