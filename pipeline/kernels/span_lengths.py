"""Lengths of spans, drawn from a law until they reach a total."""

from __future__ import annotations

import numpy as np

from clozeline.arrays import Int64, UInt64
from clozeline.pipeline.kernels.distributions import inverse_cdf
from clozeline.pipeline.kernels.sampling import draw, offsets_of, rows_of, running, within
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import LENGTHS


def lengths_until(keys: UInt64, totals: Int64, thresholds: UInt64, words: Int64) -> Ragged:
    """Draw lengths for each row until their sum reaches `totals[i]`; the last is cut to make it the sum (int64).

    Args:
        keys: one key a row.
        totals: shape [n].
        thresholds: the law.
        words: how many lengths to draw at first; the result does not depend on it.
    """
    while True:
        offsets = offsets_of(words)
        drawn = inverse_cdf(draw(keys, LENGTHS, words), thresholds)
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


def merged(lengths: Ragged, limit: Int64) -> Ragged:
    """Return at most `limit` spans a row: drop zero lengths (last first), then merge the last spans."""
    spans = lengths.lengths
    if (spans <= limit).all():
        return lengths
    zero = lengths.values == 0
    zeros_before = running(zero, lengths.offsets)
    zeros = np.bincount(rows_of(lengths)[zero], minlength=len(spans))
    rows = rows_of(lengths)
    excess = np.minimum(zeros, np.maximum(spans - limit, 0))
    keep = ~(zero & (zeros_before >= (zeros - excess)[rows]))
    kept = Ragged(lengths.values[keep], offsets_of(spans - excess))
    counts = np.minimum(kept.lengths, limit)
    place = np.minimum(within(kept.lengths), (limit - 1)[rows_of(kept)])
    offsets = offsets_of(counts)
    sums = np.bincount(place + offsets[rows_of(kept)], kept.values, minlength=offsets[-1]).astype(np.int64)
    return Ragged(sums, offsets)
