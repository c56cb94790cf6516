"""List columns of a micro-batch as matrices over its rows, and facts of every place from the starts of parts."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import DTypeLike

from pipeline.arrays import Int64
from pipeline.rows import Ragged
from train.stream.row_buffer import Column

__all__ = [
    "document_bounds",
    "equal_lengths",
    "flatten",
    "one_a_row",
    "pad_rows",
    "part_counts",
    "part_numbers",
    "restarting_positions",
    "start_marks",
]


@lru_cache(maxsize=64)
def equal_lengths(rows: int, width: int) -> Int64:
    """Return the lengths of equally long rows; shared by all batches, so read only."""
    return np.full(rows, width, np.int64)


def pad_rows(column: Column, pad: int, dtype: DTypeLike = np.int64) -> tuple[Int64, Int64]:
    """Return rows as a matrix [B, longest], and their lengths; a batch without any token still has one place a row."""
    if not isinstance(column, Ragged):
        return column, equal_lengths(*column.shape)
    lengths = column.lengths
    width = max(1, int(lengths.max()))
    matrix = np.full((len(column), width), pad, dtype)
    matrix.reshape(-1)[_places(column, lengths, width)] = column.values
    return matrix, lengths


def _places(column: Ragged, lengths: Int64, width: int) -> Int64:
    """Return the flat place, in rows of `width`, of every value of a ragged column."""
    places: Int64 = np.arange(len(column.values))
    places += np.repeat(np.arange(len(lengths)) * width - column.offsets[:-1], lengths)
    return places


def flatten(column: Column) -> tuple[Int64, Int64]:
    """Return all values end to end, and the row of each."""
    if isinstance(column, Ragged):
        return column.values.astype(np.int64), np.repeat(np.arange(len(column)), column.lengths)
    return column.reshape(-1), np.repeat(np.arange(len(column)), column.shape[1])


def one_a_row(column: Column, missing: int = 0) -> Int64:
    """Return one value a row; `missing` for rows without (filler)."""
    values, rows = flatten(column)
    scalars = np.full(len(column), missing, np.int64)
    scalars[rows] = values
    return scalars


def start_marks(column: Column, rows: int, width: int) -> Int64:
    """Return 1 where a part starts, shape [rows, width]; a start after the last place (an empty part) is left out."""
    values, row = flatten(column)
    marks = np.zeros((rows, width + 1), np.int64)
    marks[row, values] = 1
    return marks[:, :width]


def part_counts(column: Column, rows: int, width: int) -> Int64:
    """Return how many parts start at each place, shape [rows, width]; all but the last of several are empty."""
    values, row = flatten(column)
    counts = np.bincount(row * (width + 1) + values, minlength=rows * (width + 1))
    return counts.reshape(rows, width + 1)[:, :width]


def restarting_positions(starts: Int64) -> Int64:
    """Return position ids that begin at 0 again with every part."""
    place = np.arange(starts.shape[1])
    restarted: Int64 = place - np.maximum.accumulate(np.where(starts > 0, place, 0), axis=1)
    return restarted


def document_bounds(starts: Int64, lengths: Int64) -> Int64:
    """Return where documents begin in the flattened batch, and its end; a row's padding is a document of its own."""
    marks = starts.copy()
    marks[:, 0] = 1
    padded = np.flatnonzero(lengths < starts.shape[1])
    marks[padded, lengths[padded]] = 1
    return np.append(np.flatnonzero(marks), marks.size)


def part_numbers(column: Column, lengths: Int64, width: int) -> Int64:
    """Number the part of each token from 0; padding has 0."""
    numbers: Int64 = np.maximum(np.cumsum(start_marks(column, len(lengths), width), axis=1) - 1, 0)
    numbers[np.arange(width) >= lengths[:, None]] = 0
    return numbers
