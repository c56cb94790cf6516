"""Laws of span lengths as integer tables, and lengths drawn from them until they reach a total.

A table holds 32-bit thresholds: a 32-bit word u means the number of thresholds <= u. No float decides a length.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.example import Ragged
from pipeline.kernels import draw, offsets_of, rows_of, running, within
from pipeline.rates import MILLION
from pipeline.seeding import LENGTHS

__all__ = [
    "geometric_thresholds",
    "lengths_of",
    "lengths_until",
    "merged",
    "poisson_thresholds",
    "reciprocal_thresholds",
]

Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]

_FEW: Final = 16
"""Thresholds that are quicker compared one by one than searched."""


def poisson_thresholds(mean_thousandths: int) -> UInt64:
    """Poisson law of lengths 0, 1, ...

    As many lengths as leave less than 2**-22 behind them (16 at mean 3); what is left joins the last one.
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
    """Geometric law p (1 - p)^(l - 1), renormalised on 1 .. longest: mean 3.797 at p = 0.2 and 10."""
    failure = 1 - Fraction(success_ppm, MILLION)
    return _thresholds([failure ** (length - 1) for length in range(1, longest + 1)])


def reciprocal_thresholds(longest: int) -> UInt64:
    """Law of 1 .. longest with weights 1 / l: mean 2.190 at 5."""
    return _thresholds([Fraction(1, length) for length in range(1, longest + 1)])


def _thresholds(weights: list[Fraction]) -> UInt64:
    """Of the lengths 1, 2, ... with these weights; the first threshold is 0, so no length is. All are below 2**32."""
    total = sum(weights)
    below = [Fraction(0), *accumulate(weights[:-1])]
    return np.array([int(weight * 2**32 / total) for weight in below if weight < total], dtype=np.uint64)


def lengths_of(words: UInt64, thresholds: UInt64) -> Int64:
    """The lengths that the high halves of 64-bit words mean."""
    if len(thresholds) > _FEW:
        return np.searchsorted(thresholds, words >> np.uint64(32), side="right")
    lengths = np.zeros(len(words), dtype=np.uint8)
    for threshold in thresholds << np.uint64(32):
        lengths += words >= threshold
    return lengths.astype(np.int64)


def lengths_until(keys: UInt64, totals: Int64, thresholds: UInt64, words: Int64) -> Ragged:
    """For each row lengths until their sum reaches `totals[i]`, the last one cut so that it is the sum (int64).

    Args:
        keys: one key a row.
        totals: shape [n].
        thresholds: the law.
        words: how many lengths to draw at first; the result does not depend on it.
    """
    while True:
        offsets = offsets_of(words)
        drawn = lengths_of(draw(keys, LENGTHS, words), thresholds)
        before = running(drawn, offsets)
        wanted = np.repeat(totals, words)
        reached = before[offsets[1:] - 1] + drawn[offsets[1:] - 1]
        if (reached >= totals).all():
            break
        words = np.where(reached < totals, 2 * words, words)
    used = before < wanted
    lengths = np.minimum(drawn, wanted - before)[used]
    row = np.repeat(np.arange(len(totals)), words)[used]
    return Ragged(lengths, offsets_of(np.bincount(row, minlength=len(totals))))


def merged(lengths: Ragged, most: Int64) -> Ragged:
    """At most `most` spans a row: drop zero lengths (last first), then merge the last ones."""
    spans = lengths.lengths
    if (spans <= most).all():
        return lengths
    zero = lengths.values == 0
    zeros_before = running(zero, lengths.offsets)
    zeros = np.bincount(rows_of(lengths)[zero], minlength=len(spans))
    rows = rows_of(lengths)
    excess = np.minimum(zeros, np.maximum(spans - most, 0))
    keep = ~(zero & (zeros_before >= (zeros - excess)[rows]))
    left = Ragged(lengths.values[keep], offsets_of(spans - excess))
    counts = np.minimum(left.lengths, most)
    place = np.minimum(within(left.lengths), (most - 1)[rows_of(left)])
    offsets = offsets_of(counts)
    sums = np.bincount(place + offsets[rows_of(left)], left.values, minlength=offsets[-1]).astype(np.int64)
    return Ragged(sums, offsets)
