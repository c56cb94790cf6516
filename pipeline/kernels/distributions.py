"""Discrete laws as integer tables, and drawing from them; and exponential times.

The same words draw the same on every machine. Tables are integers. Times are floats made by additions,
multiplications and divisions alone, which IEEE 754 rounds in one way; the last bit of `numpy.log` and of powers
depends on the processor.

A table holds rising 32-bit thresholds; a 32-bit word u means the number of thresholds <= u. Tables of lengths from 1 on
begin with the threshold 0.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64, UInt64
from clozeline.pipeline.kernels.rates import MILLION

_FEW: Final = 16
"""Thresholds that are quicker compared one by one than searched."""
_STEPS: Final = 3
"""Thresholds after those of the guide that are quicker compared than searched."""
_LN_2: Final = 0.6931471805599453
_SERIES: Final = tuple(2 / power for power in (13, 11, 9, 7, 5, 3, 1))
"""Factors of the odd powers of y in ln((1 + y) / (1 - y)); those left out are below 2e-12 of it for |y| < 0.172."""


def poisson_thresholds(mean_thousandths: int) -> UInt64:
    """Return the Poisson law of lengths 0, 1, ...

    The table ends where the remaining probability is below 2**-22 (16 lengths at mean 3); the last length gets it.
    """
    with localcontext() as context:
        context.prec = 60
        mean = Decimal(mean_thousandths) / 1000
        term = (-mean).exp()
        total, table = term, []
        while 1 - total >= Decimal(2) ** -22:
            table.append(int(total * 2**32))
            term = term * mean / (len(table))
            total += term
    return np.array(table, dtype=np.uint64)


def geometric_thresholds(success_ppm: int, longest: int) -> UInt64:
    """Return the geometric law p (1 - p)^(l - 1) of lengths l, renormalised on 1 .. longest."""
    failure = 1 - Fraction(success_ppm, MILLION)
    return _length_thresholds([failure ** (length - 1) for length in range(1, longest + 1)])


def reciprocal_thresholds(longest: int) -> UInt64:
    """Return the law of lengths 1 .. longest with weights 1 / l: mean 2.190 at 5."""
    return _length_thresholds([Fraction(1, length) for length in range(1, longest + 1)])


def _length_thresholds(weights: list[Fraction]) -> UInt64:
    """Return the law of the lengths 1, 2, ... with these weights; all thresholds are below 2**32."""
    total = sum(weights)
    below = [Fraction(0), *accumulate(weights[:-1])]
    return np.array([int(weight * 2**32 / total) for weight in below if weight < total], dtype=np.uint64)


def frequency_thresholds(counts: NDArray[np.integer[Any]]) -> UInt64:
    """Return the law of the entries 0, 1, ... in proportion to their counts; a count of 0 counts as 1.

    The thresholds are floor(2**32 x cumulative count / total), without the last one.

    Example: counts 3, 0, 4 have the cumulative counts 3, 4, 8: thresholds 3 x 2**29 and 2**31.
    """
    cumulative = list(accumulate(max(1, count) for count in counts.tolist()))
    return np.array([(count << 32) // cumulative[-1] for count in cumulative[:-1]], dtype=np.uint64)


def powers(counts: NDArray[np.integer[Any]], exponent: float) -> NDArray[np.float64]:
    """Return count ** exponent for each count, rounded from 25 digits; a count of 0 counts as 1.

    Example: counts 0, 9 and 16 with the exponent 0.5 are 1.0, 3.0 and 4.0.
    """
    different, where = np.unique(counts, return_inverse=True)
    with localcontext() as context:
        context.prec = 25
        power = Decimal(repr(exponent))
        exact = [float(Decimal(max(1, count)) ** power) for count in different.tolist()]
    return np.array(exact, dtype=np.float64)[where]


def exponentials(words48: UInt64) -> NDArray[np.float64]:
    """Return the exponential times of mean 1 that 48-bit words draw: -ln((word + 1/2) / 2**48), all above 0.

    With u = m x 2**e and m between the square roots of 1/2 and 2, ln(u) is e x ln(2) + ln(m), and ln(m) is a series
    in (m - 1) / (m + 1).
    """
    mantissa, exponent = np.frexp((words48.astype(np.float64) + 0.5) * 2.0**-48)
    small = mantissa < 0.7071067811865476
    mantissa += mantissa * small
    exponent -= small
    ratio = (1 - mantissa) / (1 + mantissa)
    square = ratio * ratio
    series: NDArray[np.float64] = np.full_like(square, _SERIES[0])
    for factor in _SERIES[1:]:
        series *= square
        series += factor
    series *= ratio
    series -= exponent * _LN_2
    return series


def guide(thresholds: UInt64) -> Int64:
    """Return how many thresholds each value of the highest 16 bits reaches at least; shape [2**16]."""
    return np.searchsorted(thresholds, np.arange(1 << 16, dtype=np.uint64) << np.uint64(16), side="right")


def inverse_cdf(words: UInt64, thresholds: UInt64, known: Int64 | None = None) -> Int64:
    """Return what the high halves of 64-bit words draw: the number of thresholds that each one reaches.

    Args:
        words: any number.
        thresholds: a table of this module.
        known: the table's `guide`, which makes long tables quicker.
    """
    if known is not None:
        return _guided(words >> np.uint64(32), thresholds, known)
    if len(thresholds) > _FEW:
        return np.searchsorted(thresholds, words >> np.uint64(32), side="right")
    reached = np.zeros(len(words), dtype=np.uint8)
    for threshold in thresholds << np.uint64(32):
        reached += words >= threshold
    return reached.astype(np.int64)


def _guided(words: UInt64, thresholds: UInt64, known: Int64) -> Int64:
    """Start from the guide and compare a few thresholds; search the rest where thresholds are dense."""
    bounds = np.append(thresholds, np.uint64(1 << 32))
    reached = known.take(words >> np.uint64(16))
    rest = np.flatnonzero(bounds.take(reached) <= words)
    for _ in range(_STEPS):
        reached[rest] += 1
        rest = rest[bounds.take(reached.take(rest)) <= words.take(rest)]
    reached[rest] = np.searchsorted(thresholds, words[rest], side="right")
    return reached
