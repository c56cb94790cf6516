"""Row-wise questions to list columns, answered for a whole block at once: the first row that breaks a rule."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.rows import Ragged

__all__ = [
    "as_ranks",
    "first_not_ascending",
    "first_not_permutation",
    "first_of_values",
    "first_outside",
    "first_row",
    "first_without_zero",
    "rank_in_row",
    "row_of_values",
]

Bool: TypeAlias = NDArray[np.bool_]


def row_of_values(ragged: Ragged) -> NDArray[np.int64]:
    """The row of each value, shape [values]."""
    return np.repeat(np.arange(len(ragged), dtype=np.int64), ragged.lengths)


def rank_in_row(ragged: Ragged) -> NDArray[np.int64]:
    """The place of each value in its row, shape [values]."""
    lengths = ragged.lengths
    ranks: NDArray[np.int64] = np.arange(len(ragged.values), dtype=np.int64)
    return ranks - np.repeat(np.cumsum(lengths) - lengths, lengths)


def first_row(wrong: Bool) -> int | None:
    """The first row marked as wrong."""
    return int(np.argmax(wrong)) if wrong.any() else None


def first_of_values(ragged: Ragged, wrong: Bool) -> int | None:
    """The row of the first value marked as wrong."""
    return int(row_of_values(ragged)[np.argmax(wrong)]) if wrong.any() else None


def first_not_ascending(ragged: Ragged) -> int | None:
    """A row whose values do not rise strictly."""
    values = ragged.values.astype(np.int64)
    wrong = np.zeros(len(values), dtype=np.bool_)
    wrong[1:] = values[1:] <= values[:-1]
    wrong[rank_in_row(ragged) == 0] = False
    return first_of_values(ragged, wrong)


def first_outside(ragged: Ragged, bounds: NDArray[np.int64]) -> int | None:
    """A row with a value that is not below the row's bound."""
    return first_of_values(ragged, ragged.values.astype(np.int64) >= bounds[row_of_values(ragged)])


def first_without_zero(ragged: Ragged) -> int | None:
    """A row that does not begin with 0; an empty row does not."""
    wrong = ragged.lengths == 0
    full = np.flatnonzero(~wrong)
    wrong[full] = ragged.values[ragged.offsets[:-1][full]] != 0
    return first_row(wrong)


def first_not_permutation(ragged: Ragged) -> int | None:
    """A row that is not a permutation of 0 .. its length - 1."""
    rows = row_of_values(ragged)
    order = np.lexsort((ragged.values, rows))
    return first_of_values(ragged, ragged.values[order] != rank_in_row(ragged))


def as_ranks(ragged: Ragged, ranks: NDArray[np.int64]) -> Ragged:
    """Each value's entry in a table of ranks; values with a rank of -1 are left out."""
    mapped = ranks[ragged.values]
    chosen = mapped >= 0
    counts = np.bincount(row_of_values(ragged)[chosen], minlength=len(ragged))
    return Ragged(mapped[chosen], np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64))))
