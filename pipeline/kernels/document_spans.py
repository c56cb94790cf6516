"""Spans of noise in packed rows whose documents are kept apart."""

from __future__ import annotations

import numpy as np

from clozeline.arrays import Int64
from clozeline.pipeline.kernels.sampling import offsets_of, rows_of, within
from clozeline.pipeline.rows import Ragged


def inside_documents(begins: Int64, sizes: Int64, bounds: Int64) -> tuple[Int64, Int64]:
    """Return spans that lie in one document each: of one that crosses a boundary the longest part, or the first such.

    Args:
        begins: of the spans in the stream of all rows, ascending; spans do not overlap.
        sizes: tokens of each span, 0 allowed.
        bounds: where documents begin in the stream, ascending; a row begins with one.

    Example:
        >>> [part.tolist() for part in inside_documents(np.array([1, 4, 8]), np.array([2, 3, 2]), np.array([0, 5, 9]))]
        [[1, 5, 8], [2, 2, 1]]
    """
    ends = begins + sizes
    first, last = np.searchsorted(bounds, begins, side="right"), np.searchsorted(bounds, ends, side="left")
    crossing = np.flatnonzero(last > first)
    if not len(crossing):
        return begins, sizes
    parts = (last - first)[crossing] + 1
    span, number = np.repeat(crossing, parts), within(parts)
    # Bounds of the parts: the span's own, and those of documents inside it.
    cuts = np.append(bounds, 0)
    begin = np.where(number == 0, begins[span], cuts[first[span] + number - 1])
    end = np.where(number == np.repeat(parts, parts) - 1, ends[span], cuts[first[span] + number])
    longest = np.lexsort((number, begin - end, span))[offsets_of(parts)[:-1]]
    begins, sizes = begins.copy(), sizes.copy()
    begins[crossing], sizes[crossing] = begin[longest], (end - begin)[longest]
    return begins, sizes


def noise_before(documents: Ragged, starts: Ragged, sizes: Int64) -> tuple[Int64, Int64]:
    """Return the spans, and their tokens, that are before each document in its row; both flat, as `documents.values`.

    Args:
        documents: starts in their rows, first 0.
        starts: of each row's spans, ascending; a span that starts where a document does is of that document.
        sizes: tokens of the spans, flat; no span crosses into another document.
    """
    row = rows_of(documents)
    spans = np.searchsorted(_in_order(starts), _in_order(documents), side="left")
    tokens = np.concatenate(([0], np.cumsum(sizes)))
    return spans - starts.offsets[row], tokens[spans] - tokens[starts.offsets[row]]


def _in_order(places: Ragged) -> Int64:
    """Return places of rows of up to 2**32 tokens as numbers that ascend over all rows."""
    numbers: Int64 = places.values.astype(np.int64) + (rows_of(places) << 32)
    return numbers
