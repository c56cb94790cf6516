"""Rows of token sets, sample sets and example sets in memory: flat values and offsets per column.

A `RowBatch` holds n rows. Fixed columns (`uid`, `variant`, ...) are arrays with n entries; list
columns are `Ragged`. Samples (grouped, not corrupted) and examples (corrupted) have the same type:
`SampleBatch` and `ExampleBatch` are aliases that say which of them a function takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.columns import Feature, Role
from clozeline.report.html_page import Viewed
from clozeline.report.views import Section, Table

FIXED_COLUMNS: Final[Mapping[str, str]] = {
    "uid": "uint64",
    "variant": "uint16",
    "document_uid": "binary16",
    "document_offset": "uint32",
    "copy": "uint8",
    "part": "uint8",
    "language": "uint8",
}
"""columns of every sample and example row; `binary16` is an array of uint8, shape [n, 16]"""
WORD_STARTS: Final = Feature(
    "word_starts",
    "uint32",
    Role("start", "token_ids"),
    "tokens at which words begin, where segmenters found them",
)
"""column of token sets, and of the rows that are cut from them"""

# Most values of a column that a notebook shows, and bytes in the uid of a document.
_SHOWN_VALUES: Final = 24
_UID_BYTES: Final = 16
# Index entries handled at once: 512 KiB stay in the second-level cache of a core.
_CACHED_INDEX: Final = 1 << 16
# Mean length of segments from which copying them one by one is faster than gathering by an index.
_LONG_SEGMENT: Final = 192


@dataclass(frozen=True, slots=True)
class Ragged:
    """n concatenated lists: list i is `values[offsets[i] : offsets[i + 1]]`."""

    values: NDArray[Any]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def width(self) -> int | None:
        """Return the length of the lists if all are equally long, else None."""
        if not len(self):
            return None
        length = int(self.offsets[1] - self.offsets[0])
        equal = self.offsets is equal_offsets(len(self), length) or bool(
            (np.diff(self.offsets) == length).all()
        )
        return length if equal else None

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Return the length of each list, shape [n]."""
        lengths: NDArray[np.int64] = self.offsets[1:] - self.offsets[:-1]
        return lengths

    @staticmethod
    def from_lists(lists: Sequence[Any], dtype: Any) -> Ragged:
        """Build ragged lists from sequences of numbers."""
        lengths = np.fromiter((len(item) for item in lists), dtype=np.int64, count=len(lists))
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        arrays = [np.asarray(item, dtype=dtype) for item in lists]
        values = np.concatenate(arrays) if arrays else np.empty(0, dtype=dtype)
        return Ragged(values.astype(dtype, copy=False), offsets)

    @staticmethod
    def from_matrix(matrix: NDArray[np.generic]) -> Ragged:
        """Build lists of equal length from a matrix [n, length], without a copy if possible."""
        rows, length = matrix.shape
        return Ragged(matrix.reshape(-1), equal_offsets(rows, length))

    def take(self, rows: NDArray[np.integer[Any]]) -> Ragged:
        """Return the lists at `rows`, in this order, gathered without a loop."""
        lengths = self.lengths[rows]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        return Ragged(segments(self.values, self.offsets[rows], lengths), offsets)

    def cut(self, start: int, stop: int) -> Ragged:
        """Return lists `start` to `stop` - 1; their values are a view."""
        offsets = self.offsets[start : stop + 1]
        return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])

    @staticmethod
    def concatenate(parts: Sequence[Ragged]) -> Ragged:
        """Return the lists of all parts, one part after another."""
        starts = np.cumsum([0] + [int(part.offsets[-1] - part.offsets[0]) for part in parts[:-1]])
        offsets = [
            part.offsets[1:] - part.offsets[0] + start
            for part, start in zip(parts, starts, strict=True)
        ]
        values = [part.values[part.offsets[0] : part.offsets[-1]] for part in parts]
        return Ragged(np.concatenate(values), np.concatenate([np.zeros(1, np.int64), *offsets]))


@lru_cache(maxsize=64)
def equal_offsets(rows: int, length: int) -> NDArray[np.int64]:
    """Return the offsets of equally long lists; callers share one read-only array."""
    offsets = np.arange(rows + 1, dtype=np.int64) * length
    offsets.flags.writeable = False
    return offsets


def segments(
    values: NDArray[np.generic], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.generic]:
    """Concatenate the segments `values[starts[i] : starts[i] + lengths[i]]` in a new array."""
    if len(lengths) and lengths[0] > 0 and (lengths == lengths[0]).all():
        return _copy_equal_segments(values, starts, int(lengths[0]))
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if len(lengths) and offsets[-1] >= _LONG_SEGMENT * len(lengths):
        return _copy_long_segments(values, starts, lengths)

    # gather by an index, as many segments at once as fit the cache
    shift = starts - offsets[:-1]
    out = np.empty(offsets[-1], dtype=values.dtype)
    bounds = np.searchsorted(
        offsets, np.arange(0, offsets[-1] + _CACHED_INDEX, _CACHED_INDEX)
    ).clip(max=len(lengths))
    for first, last in pairwise(bounds.tolist()):
        index = np.repeat(shift[first:last], lengths[first:last])
        index += np.arange(offsets[first], offsets[last])
        out[offsets[first] : offsets[last]] = values.take(index)

    return out


def _copy_equal_segments(
    values: NDArray[np.generic], starts: NDArray[np.int64], length: int
) -> NDArray[np.generic]:
    """Copy segments of one length: numpy takes 20 ns to copy 256 bytes as one opaque item."""
    item = np.dtype((np.void, length * values.itemsize))
    count = max(0, len(values) - length + 1)
    windows = np.ndarray(count, item, np.ascontiguousarray(values), strides=(values.itemsize,))
    return windows[starts].view(values.dtype)


def _copy_long_segments(
    values: NDArray[np.generic], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.generic]:
    """Copy segments one by one without an index array, which takes 0.1 microseconds each."""
    view = np.ascontiguousarray(values).data
    pieces = [
        view[start:end]
        for start, end in zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
    ]
    out = np.frombuffer(bytearray().join(pieces), values.dtype)
    if len(out) != lengths.sum():
        raise IndexError(
            f"segments of {lengths.sum()} values exceed the array of {len(values)} values"
        )
    return out


@dataclass(frozen=True, slots=True, repr=False)
class RowBatch(Viewed):
    """A batch of n rows: fixed columns and list columns, by name."""

    fixed: Mapping[str, NDArray[Any]]
    columns: Mapping[str, Ragged] = field(default_factory=dict)

    def __len__(self) -> int:
        if self.fixed:
            return len(next(iter(self.fixed.values())))
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[ShardRow]:
        return (self.row(i) for i in range(len(self)))

    def __repr__(self) -> str:
        columns = (
            f"{name} {column.values.dtype} [{len(column.values):,}]"
            for name, column in self.columns.items()
        )
        return f"RowBatch({len(self):,} rows: {', '.join([*columns, *self.fixed])})"

    def view(self) -> Section:
        """Return a table of the columns."""
        listed = []
        for name, column in self.columns.items():
            size = len(column.values)
            amount = f"{size:,}, {size / max(1, len(self)):.1f} per row"
            listed.append((name, str(column.values.dtype), amount))
        listed += [
            (name, str(column.dtype), "one for each row") for name, column in self.fixed.items()
        ]
        return Section(f"{len(self):,} rows", [Table("", ("column", "type", "values"), listed)])

    def row(self, index: int) -> ShardRow:
        """Return one row."""
        fixed = {name: column[index] for name, column in self.fixed.items()}
        return ShardRow(fixed, {name: column[index] for name, column in self.columns.items()})

    def take(self, rows: NDArray[np.integer[Any]]) -> RowBatch:
        """Return the given rows, in this order."""
        fixed = {name: column[rows] for name, column in self.fixed.items()}
        return RowBatch(fixed, {name: column.take(rows) for name, column in self.columns.items()})

    def cut(self, start: int, stop: int) -> RowBatch:
        """Return rows `start` to `stop` - 1, as views."""
        columns = {name: column.cut(start, stop) for name, column in self.columns.items()}
        return RowBatch({name: column[start:stop] for name, column in self.fixed.items()}, columns)

    @staticmethod
    def concatenate(parts: Sequence[RowBatch]) -> RowBatch:
        """Return the rows of all parts, one part after another."""
        fixed = {
            name: np.concatenate([part.fixed[name] for part in parts]) for name in parts[0].fixed
        }
        columns = {
            name: Ragged.concatenate([part.columns[name] for part in parts])
            for name in parts[0].columns
        }
        return RowBatch(fixed, columns)


@dataclass(frozen=True, slots=True, repr=False)
class ShardRow(Viewed):
    """One row: arrays by column name; `fixed` has its provenance."""

    fixed: Mapping[str, Any]
    columns: Mapping[str, NDArray[Any]]

    def __getitem__(self, name: str) -> NDArray[Any]:
        try:
            return self.columns[name]
        except KeyError:
            raise KeyError(f"no column {name!r}; the row has {', '.join(self.columns)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __repr__(self) -> str:
        sample = f"sample {int(self.fixed['uid']):016x}: " if "uid" in self.fixed else ""
        columns = (
            f"{name} {values.dtype} [{len(values)}]" for name, values in self.columns.items()
        )
        return f"ShardRow({sample}{', '.join(columns)})"

    def view(self) -> Section:
        """Return a table of the columns and their first values."""
        listed = [
            (name, f"{values.dtype} [{len(values)}]", _first_values(values))
            for name, values in self.columns.items()
        ]
        listed += [
            (name, "one value", _first_values(np.atleast_1d(value)))
            for name, value in self.fixed.items()
        ]
        return Section("row", [Table("", ("column", "type", "values"), listed)])


def _first_values(values: NDArray[np.generic]) -> str:
    """Return the first values of a column as text, or a uid in hexadecimal digits."""
    if values.dtype == np.uint8 and len(values) == _UID_BYTES:
        return values.tobytes().hex()
    more = " …" if len(values) > _SHOWN_VALUES else ""
    return " ".join(map(str, values[:_SHOWN_VALUES].tolist())) + more


SampleBatch: TypeAlias = RowBatch
ExampleBatch: TypeAlias = RowBatch
Sample: TypeAlias = ShardRow
Example: TypeAlias = ShardRow
