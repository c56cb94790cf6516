"""Noise spans of rows: draw lengths with a given sum, and keep each span inside one document."""

import numpy as np

from clozeline.arrays import Int64, UInt64
from clozeline.pipeline.kernels.distributions import inverse_cdf
from clozeline.pipeline.kernels.sampling import (
    draw,
    exclusive_cumsum,
    list_indices,
    offsets_of,
    rows_of,
)
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import LENGTHS


def draw_lengths(keys: UInt64, totals: Int64, thresholds: UInt64, counts: Int64) -> Ragged:
    """Draw lengths for each row until their sum reaches `totals[i]`, shape [n] (int64).

    The last length is cut to fit. `thresholds` is a table of `distributions`. `counts` is how many
    lengths to draw at first; the result does not depend on it.
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
    """Reduce each row to at most `limit` spans.

    Drop zero lengths, the last ones first; if that is not enough, merge the last spans.
    """
    spans = lengths.lengths
    if (spans <= limit).all():
        return lengths

    # drop one zero length for each span above the limit
    zero = lengths.values == 0
    zeros_before = exclusive_cumsum(zero, lengths.offsets)
    zeros = np.bincount(rows_of(lengths)[zero], minlength=len(spans))
    rows = rows_of(lengths)
    excess = np.minimum(zeros, np.maximum(spans - limit, 0))
    keep = ~(zero & (zeros_before >= (zeros - excess)[rows]))
    kept = Ragged(lengths.values[keep], offsets_of(spans - excess))

    # add the spans above the limit to the last allowed span
    offsets = offsets_of(np.minimum(kept.lengths, limit))
    span = np.minimum(list_indices(kept.lengths), (limit - 1)[rows_of(kept)])
    sums = np.bincount(span + offsets[rows_of(kept)], kept.values, minlength=offsets[-1]).astype(
        np.int64
    )
    return Ragged(sums, offsets)


def cap_lengths(lengths: Ragged, longest: int) -> Ragged:
    """Move what the lengths of each row have above `longest` to its first lengths with room.

    The sum of a row stays the same; it is at most `longest` times the number of its lengths.

    Example:
        >>> cap_lengths(Ragged.from_lists([[1, 5, 1]], np.int64), 3).values.tolist()
        [3, 3, 1]
    """
    capped = np.minimum(lengths.values, longest)
    excess = np.bincount(rows_of(lengths), lengths.values - capped, minlength=len(lengths)).astype(
        np.int64
    )
    room = longest - capped
    before = exclusive_cumsum(room, lengths.offsets)
    added = np.clip(np.repeat(excess, lengths.lengths) - before, 0, room)
    return Ragged(capped + added, lengths.offsets)


def clip_to_documents(begins: Int64, sizes: Int64, bounds: Int64) -> tuple[Int64, Int64]:
    """Clip each span that crosses documents to its longest part in one document.

    Of equally long parts the first is taken.

    Args:
        begins: starts of the spans in the stream of all rows, ascending; spans do not overlap.
        sizes: tokens of each span, 0 allowed.
        bounds: document starts in the stream, ascending; every row starts with a document.

    Example:
        >>> begins, sizes, bounds = np.array([1, 4, 8]), np.array([2, 3, 2]), np.array([0, 5, 9])
        >>> [part.tolist() for part in clip_to_documents(begins, sizes, bounds)]
        [[1, 5, 8], [2, 2, 1]]
    """
    ends = begins + sizes
    first = np.searchsorted(bounds, begins, side="right")
    last = np.searchsorted(bounds, ends, side="left")
    crossing = np.flatnonzero(last > first)
    if not len(crossing):
        return begins, sizes

    # list the parts of all crossing spans, flat: the span of each part, and its index in the span
    parts = (last - first)[crossing] + 1
    span = np.repeat(crossing, parts)
    index = list_indices(parts)

    # bounds of the parts: start and end of the span, and the document starts inside it
    cuts = np.append(bounds, 0)
    begin = np.where(index == 0, begins[span], cuts[first[span] + index - 1])
    end = np.where(index == np.repeat(parts, parts) - 1, ends[span], cuts[first[span] + index])

    # replace each crossing span with its longest part
    longest = np.lexsort((index, begin - end, span))[offsets_of(parts)[:-1]]
    begins = begins.copy()
    sizes = sizes.copy()
    begins[crossing] = begin[longest]
    sizes[crossing] = (end - begin)[longest]
    return begins, sizes


def count_noise_before(documents: Ragged, starts: Ragged, sizes: Int64) -> tuple[Int64, Int64]:
    """Count the spans, and their tokens, before each document in its row, flat.

    The starts of documents (first 0) and of spans ascend in each row; a span that starts with a
    document belongs to it. `sizes` are the tokens of the spans, flat; no span crosses into another
    document.
    """
    row = rows_of(documents)

    # positions that ascend over all rows: the row is in the high 32 bits
    span_positions, document_positions = (
        lists.values.astype(np.int64) + (rows_of(lists) << 32) for lists in (starts, documents)
    )
    spans = np.searchsorted(span_positions, document_positions, side="left")
    tokens = np.concatenate(([0], np.cumsum(sizes)))
    return spans - starts.offsets[row], tokens[spans] - tokens[starts.offsets[row]]
