"""Base class of readers of columnar tables: each row is a document, its index the locator."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import pyarrow as pa

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.decompression import InputFile
from clozeline.pipeline.ingest.readers import NO_RECORDS, Item, SkippedRecord
from clozeline.pipeline.ingest.readers._rows import (
    FIELD_REASONS,
    FieldOptions,
    RowReader,
)

_DAMAGE_ERRORS: Final = (pa.ArrowException, OSError, ValueError, ArithmeticError)
_MOST_LOST_ROWS: Final = 1 << 20
"""Maximum lost rows counted for a damaged part, whatever the file claims."""
_MOST_ROWS: Final = 256
_MOST_BYTES: Final = 1 << 28
"""Maximum rows, and decoded bytes, that are Python values at a time."""


class TablePart(NamedTuple):
    """Consecutive rows that can be read independently.

    `rows` is their number, if the file states it.
    """

    rows: int | None
    batches: Callable[[], Iterable[pa.RecordBatch]]


Table = tuple[pa.Schema, Iterable[TablePart]]
"""Columns and parts of a table."""


def open_arrow(path: InputFile) -> pa.NativeFile:
    """Open a file for the readers of Arrow."""
    return (
        pa.memory_map(str(path)) if isinstance(path, Path) else pa.PythonFile(path.open("rb"), "r")
    )


def rows_at_once(size: int) -> int:
    """Return how many rows to decode together, if any of them may have `size` bytes.

    Compression and dictionaries store a value once that many rows have.
    """
    return max(1, min(_MOST_ROWS, _MOST_BYTES // max(1, size)))


class TableFileReader(RowReader):
    """Base class of readers of tables, batch by batch; a subclass opens its format."""

    locator_type: ClassVar[str]
    """unit of the locator, part of the document uid"""
    reasons = (*FIELD_REASONS, "damaged", "schema")

    Options = FieldOptions

    @abstractmethod
    def table(self, path: InputFile) -> AbstractContextManager[Table]:
        """Open the file."""

    def schema(self, path: InputFile) -> pa.Schema:
        """Return the columns of a file; raise ConfigurationError if it is damaged."""
        try:
            with self.table(path) as (schema, _):
                return schema
        except _DAMAGE_ERRORS as error:
            raise ConfigurationError(
                f"{path}: the file is damaged ({error}): copy it again"
            ) from error

    def column_names(self, path: InputFile) -> Sequence[str]:
        names: Sequence[str] = self.schema(path).names
        return names

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        """Yield all rows; of a damaged part the rows before the damage, then the next part."""
        row = 0

        try:
            with self.table(path) as (schema, parts):
                # a table without the text column is one fault, not one per row
                if why := self._records.explain_unusable(schema.names):
                    yield SkippedRecord("malformed", "schema", detail=why)
                    return
                for part in parts:
                    row = yield from self._read_part(part, row)
                if row == 0:
                    yield NO_RECORDS
        except _DAMAGE_ERRORS:
            yield SkippedRecord("malformed", "damaged", row)

    def _read_part(self, part: TablePart, row: int) -> Generator[Item, None, int]:
        """Yield the rows of a part from an index on; return the index of the next part.

        Lost rows are yielded too, so that later indices do not change.
        """
        first = row

        try:
            for batch in part.batches():
                for fields in iterate_rows(batch, self._records.text_columns):
                    item: Item = SkippedRecord("malformed", "bad_utf8", row)
                    if fields is not None:
                        item = self._records.make(fields, self.locator_type, row, 1)
                    row += 1
                    yield item
        except _DAMAGE_ERRORS:
            lost = 1 if part.rows is None else min(max(1, first + part.rows - row), _MOST_LOST_ROWS)
            yield from (
                SkippedRecord("malformed", "damaged", row + number) for number in range(lost)
            )
            row += lost

        return row


def iterate_rows(
    batch: pa.RecordBatch, text_columns: Collection[str] = ()
) -> Iterator[dict[str, object] | None]:
    """Yield the rows as Python values; None for a row with invalid UTF-8.

    Times become text, because no Python type holds all of them (nanoseconds, unknown zones, the
    year 0). In a column of `text_columns` each time becomes True: such a column must be text
    itself.

    Raises:
        pyarrow.ArrowInvalid: an offset, a length or an index points outside of its buffer.
    """
    for column in batch.columns:
        _check_bounds(column)
    step = rows_at_once(batch.get_total_buffer_size())
    for first in range(0, batch.num_rows, step):
        yield from _iterate_slice(batch.slice(first, step), text_columns)


def _check_bounds(column: pa.Array) -> None:
    """Raise ArrowInvalid if a value lies outside of its buffer, which Arrow would read.

    Strings are viewed as bytes, because one that is not UTF-8 costs its row alone.
    """
    column.validate()
    column.view(_replace_types(column.type, _BYTES_OF.get)).validate(full=True)


_BYTES_OF: Final = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


def _iterate_slice(
    batch: pa.RecordBatch, text_columns: Collection[str]
) -> Iterator[dict[str, object] | None]:
    try:
        columns = [
            _to_values(column, name in text_columns)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
    except UnicodeDecodeError:
        # find the invalid row by reading single rows
        if batch.num_rows == 1:
            yield None
            return
        for index in range(batch.num_rows):
            yield from _iterate_slice(batch.slice(index, 1), text_columns)
    else:
        yield from (
            dict(zip(batch.schema.names, values, strict=True))
            for values in zip(*columns, strict=True)
        )


def _to_values(column: pa.Array, is_text: bool) -> list[Any]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if (
        pa.types.is_fixed_size_binary(column.type) and not is_text
    ):  # hashes and ids, in one form for all rows
        return [None if value is None else value.hex() for value in column.to_pylist()]
    timeless = _replace_types(column.type, lambda kind: pa.string() if _is_time(kind) else None)
    if timeless == column.type:
        values: list[object] = column.to_pylist()
        return values

    if is_text and pa.types.is_string(timeless):
        return [valid or None for valid in column.is_valid().to_pylist()]
    try:
        return list(column.cast(timeless).to_pylist())
    except pa.ArrowInvalid:  # a zone unknown to this machine: the text has the time in UTC
        zoneless = _replace_types(
            column.type, lambda kind: pa.timestamp(kind.unit) if hasattr(kind, "tz") else None
        )
        return list(column.cast(zoneless).cast(timeless).to_pylist())


def _is_time(kind: pa.DataType) -> bool:
    return pa.types.is_temporal(kind) and not pa.types.is_interval(kind)


def _replace_types(
    kind: pa.DataType, replace_type: Callable[[pa.DataType], pa.DataType | None]
) -> pa.DataType:
    """Return the type with some types replaced, also in lists, structs and dictionaries.

    Args:
        kind: the type.
        replace_type: return the new type of a type without parts; None keeps it.
    """

    def replace_field(field: pa.Field) -> pa.Field:
        return field.with_type(_replace_types(field.type, replace_type))

    types = pa.types
    if types.is_dictionary(kind):
        return pa.dictionary(
            kind.index_type, _replace_types(kind.value_type, replace_type), kind.ordered
        )
    if types.is_map(kind):
        return pa.map_(replace_field(kind.key_field), replace_field(kind.item_field))
    if types.is_struct(kind):
        return pa.struct([replace_field(field) for field in kind])
    if types.is_fixed_size_list(kind):
        return pa.list_(replace_field(kind.value_field), kind.list_size)
    for is_list, make_list in _LISTS:
        if is_list(kind):
            return make_list(replace_field(kind.value_field))
    return replace_type(kind) or kind


_LISTS: Final = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
)
