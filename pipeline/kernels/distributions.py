"""Sample from discrete distributions and the exponential distribution, equally on every machine.

The same random bits give the same result everywhere. Discrete distributions are integer tables.
Exponential times use only additions, multiplications and divisions, which IEEE 754 rounds exactly.
`numpy.log` and powers are not used, because their last bit depends on the processor.

A table holds ascending 32-bit thresholds; 32 random bits u select the number of thresholds <= u.
Tables of lengths that start at 1 have the first threshold 0.
"""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64, UInt64
from clozeline.pipeline.kernels.rates import MILLION

_LN_2: Final = 0.6931471805599453
# Coefficients of the odd powers of y in ln((1 + y) / (1 - y)); the omitted terms are below 2e-12 of
# the result for |y| < 0.172.
_SERIES: Final = tuple(2 / power for power in (13, 11, 9, 7, 5, 3, 1))


def poisson_thresholds(mean_thousandths: int) -> UInt64:
    """Return the Poisson distribution of lengths 0, 1, ...

    The table ends when the remaining probability is below 2**-22 (16 lengths at mean 3); the last
    length gets the remainder.
    """
    with localcontext() as context:
        context.prec = 60
        mean = Decimal(mean_thousandths) / 1000
        term = (-mean).exp()
        total = term
        table = []
        while 1 - total >= Decimal(2) ** -22:
            table.append(int(total * 2**32))
            term = term * mean / (len(table))
            total += term
    return np.array(table, dtype=np.uint64)


def geometric_thresholds(success_ppm: int, longest: int, shortest: int = 1) -> UInt64:
    """Return the geometric distribution p (1 - p)^(l - 1), renormalized on shortest..longest."""
    failure = 1 - Fraction(success_ppm, MILLION)
    lengths = range(1, longest + 1)
    return _length_thresholds([failure ** (n - 1) * (n >= shortest) for n in lengths])


def reciprocal_thresholds(longest: int) -> UInt64:
    """Return the distribution of lengths l in 1..longest with weights 1 / l: mean 2.190 at 5."""
    return _length_thresholds([Fraction(1, length) for length in range(1, longest + 1)])


def _length_thresholds(weights: list[Fraction]) -> UInt64:
    total = sum(weights)
    below = [Fraction(0), *accumulate(weights[:-1])]
    return np.array(
        [int(weight * 2**32 / total) for weight in below if weight < total], dtype=np.uint64
    )


def frequency_thresholds(counts: NDArray[np.integer[Any]]) -> UInt64:
    """Return the distribution of the entries 0, 1, ... in proportion to their counts.

    A count of 0 is treated as 1. The thresholds are floor(2**32 x cumulative count / total),
    without the last one.

    Example: counts 3, 0, 4 have the cumulative counts 3, 4, 8: thresholds 3 x 2**29 and 2**31.
    """
    cumulative = list(accumulate(max(1, count) for count in counts.tolist()))
    return np.array([(count << 32) // cumulative[-1] for count in cumulative[:-1]], dtype=np.uint64)


def powers(counts: NDArray[np.integer[Any]], exponent: float) -> NDArray[np.float64]:
    """Return count ** exponent for each count, rounded from 25 digits; 0 is treated as 1.

    Example: counts 0, 9 and 16 with the exponent 0.5 are 1.0, 3.0 and 4.0.
    """
    different, where = np.unique(counts, return_inverse=True)
    with localcontext() as context:
        context.prec = 25
        power = Decimal(repr(exponent))
        exact = [float(Decimal(max(1, count)) ** power) for count in different.tolist()]
    return np.array(exact, dtype=np.float64)[where]


def exponentials(bits48: UInt64) -> NDArray[np.float64]:
    """Return exponential times of mean 1 from 48 random bits each: -ln((bits + 1/2) / 2**48)."""
    # u = mantissa x 2**exponent, with the mantissa between sqrt(1/2) and sqrt(2)
    mantissa, exponent = np.frexp((bits48.astype(np.float64) + 0.5) * 2.0**-48)
    small = mantissa < 0.7071067811865476
    mantissa += mantissa * small
    exponent -= small

    # -ln(mantissa) by its series in (1 - m) / (1 + m), evaluated by Horner's rule
    ratio = (1 - mantissa) / (1 + mantissa)
    square = ratio * ratio
    series: NDArray[np.float64] = np.full_like(square, _SERIES[0])
    for factor in _SERIES[1:]:
        series *= square
        series += factor

    series *= ratio

    # -ln(u) = -ln(mantissa) - exponent x ln(2)
    series -= exponent * _LN_2
    return series


def inverse_cdf(bits: UInt64, thresholds: UInt64) -> Int64:
    """Sample from a table of this module with the high 32 of 64 random bits."""
    return np.searchsorted(thresholds, bits >> np.uint64(32), side="right")
