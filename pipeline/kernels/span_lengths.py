"""Draw span lengths that add up to a given number of tokens per row."""

import numpy as np

from clozeline.arrays import Int64, UInt64
from clozeline.pipeline.kernels.distributions import inverse_cdf
from clozeline.pipeline.kernels.sampling import draw, exclusive_cumsum, list_indices, offsets_of, rows_of
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import LENGTHS


def draw_lengths(keys: UInt64, totals: Int64, thresholds: UInt64, counts: Int64) -> Ragged:
    """Draw lengths for each row until their sum reaches `totals[i]`, shape [n]; the last one is cut to fit (int64).

    `thresholds` is a table of `distributions`. The result does not depend on `counts`, how many to draw at first.
    """
    # draw twice as many for rows whose lengths do not suffice
    while True:
        offsets = offsets_of(counts)
        drawn = inverse_cdf(draw(keys, LENGTHS, counts), thresholds)
        before = exclusive_cumsum(drawn, offsets)
        reached = before[offsets[1:] - 1] + drawn[offsets[1:] - 1]
        if (reached >= totals).all():
            break
        counts = np.where(reached < totals, 2 * counts, counts)
    # keep the lengths that start below the total, and cut the last one
    total = np.repeat(totals, counts)
    used = before < total
    lengths = np.minimum(drawn, total - before)[used]
    row = np.repeat(np.arange(len(totals)), counts)[used]
    return Ragged(lengths, offsets_of(np.bincount(row, minlength=len(totals))))


def limit_spans(lengths: Ragged, limit: Int64) -> Ragged:
    """Reduce each row to at most `limit` spans: drop zero lengths, the last ones first, then merge the last spans."""
    spans = lengths.lengths
    if (spans <= limit).all():
        return lengths
    # drop as many zero lengths as there are spans too many
    zero = lengths.values == 0
    zeros_before = exclusive_cumsum(zero, lengths.offsets)
    zeros = np.bincount(rows_of(lengths)[zero], minlength=len(spans))
    rows = rows_of(lengths)
    excess = np.minimum(zeros, np.maximum(spans - limit, 0))
    keep = ~(zero & (zeros_before >= (zeros - excess)[rows]))
    kept = Ragged(lengths.values[keep], offsets_of(spans - excess))
    # add every span from the limit on to the last span that is allowed
    offsets = offsets_of(np.minimum(kept.lengths, limit))
    span = np.minimum(list_indices(kept.lengths), (limit - 1)[rows_of(kept)])
    sums = np.bincount(span + offsets[rows_of(kept)], kept.values, minlength=offsets[-1]).astype(np.int64)
    return Ragged(sums, offsets)
