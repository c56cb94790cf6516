"""Find the first row of a ragged column that breaks a rule, for an entire block at once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool
from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import Manifest


def row_of_values(ragged: Ragged) -> NDArray[np.int64]:
    """Return the row of each value, shape [values]."""
    return np.repeat(np.arange(len(ragged), dtype=np.int64), ragged.lengths)


def rank_in_row(ragged: Ragged) -> NDArray[np.int64]:
    """Return the index of each value in its row, shape [values]."""
    lengths = ragged.lengths
    ranks: NDArray[np.int64] = np.arange(len(ragged.values), dtype=np.int64)
    return ranks - np.repeat(np.cumsum(lengths) - lengths, lengths)


def first_row(wrong: Bool) -> int | None:
    """Return the first row marked as wrong, None if no row is."""
    return int(np.argmax(wrong)) if wrong.any() else None


def first_of_values(ragged: Ragged, wrong: Bool) -> int | None:
    """Return the row of the first value marked as wrong, None if no value is."""
    return int(row_of_values(ragged)[np.argmax(wrong)]) if wrong.any() else None


def first_not_ascending(ragged: Ragged) -> int | None:
    """Return the first row whose values do not rise strictly."""
    values = ragged.values.astype(np.int64)
    falls = np.diff(values, prepend=0) <= 0
    return first_of_values(ragged, falls & (rank_in_row(ragged) > 0))


def first_outside(ragged: Ragged, bounds: NDArray[np.int64]) -> int | None:
    """Return the first row with a value that is not below the row's bound [rows]."""
    return first_of_values(ragged, ragged.values.astype(np.int64) >= bounds[row_of_values(ragged)])


def first_falling(ragged: Ragged) -> int | None:
    """Return the first row with a value below the one before it."""
    falls = np.diff(ragged.values.astype(np.int64), prepend=0) < 0
    return first_of_values(ragged, falls & (rank_in_row(ragged) > 0))


def first_repeated(ragged: Ragged) -> int | None:
    """Return the first row that has a value twice."""
    order = np.lexsort((ragged.values, row_of_values(ragged)))
    return first_not_ascending(Ragged(ragged.values[order], ragged.offsets))


def as_ranks(ragged: Ragged, ranks: NDArray[np.int64]) -> Ragged:
    """Return the rank of each value from a table [ids]; values with the rank -1 are left out."""
    mapped = ranks[ragged.values]
    chosen = mapped >= 0
    counts = np.bincount(row_of_values(ragged)[chosen], minlength=len(ragged))
    return Ragged(mapped[chosen], np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64))))


def value_or(ragged: Ragged, default: int) -> NDArray[np.int64]:
    """Return the one value of each row, shape [rows]; the default for rows of a mixture that lack the column."""
    found = np.full(len(ragged), default, np.int64)
    single = ragged.lengths == 1
    found[single] = ragged.values[ragged.offsets[:-1][single]]
    return found


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """The rows of one block of a shard, with all columns."""

    path: Path
    block: int
    rows: Rows

    def error(self, row: int, message: str) -> IntegrityError:
        """Return an error that names the row."""
        fixed = self.rows.fixed
        sample = f"sample {int(fixed['uid'][row]):016x}" if "uid" in fixed else "document"
        variant = f", variant {int(fixed['variant'][row])}" if "variant" in fixed else ""
        document = f" of document {fixed['document_uid'][row].tobytes().hex()}" if "document_uid" in fixed else ""
        return IntegrityError(f"{self.path}: block {self.block}: row {row} ({sample}{variant}{document}): {message}")


Problem: TypeAlias = tuple[int, str]
"""A row, and what is wrong in it."""
Check: TypeAlias = Callable[[LocatedRows, Manifest], Iterator[Problem]]


def rows_with(column: Ragged, block: LocatedRows, manifest: Manifest) -> Bool:
    """Return which rows must have a column; in a mixture, those of parts in which some row has it.

    A document of a token set may lack its other side.
    """
    if manifest.kind == "tokens":
        return column.lengths > 0
    if manifest.objective is None or manifest.objective.name != "mixture":
        return np.ones(len(column), np.bool_)
    part = block.rows.fixed["part"]
    return np.isin(part, part[column.lengths > 0])
