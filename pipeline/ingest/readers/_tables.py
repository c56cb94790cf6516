"""The base of readers of columnar tables: a row is a document, its index the locator."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import pyarrow as pa

from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.input_file import InputFile
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, Item, OneRange
from clozeline.pipeline.ingest.readers._fields import FIELD_REASONS, FieldOptions, explain_unusable, make_record

_DAMAGE: Final = (pa.ArrowException, OSError, ValueError)
_MOST_LOST: Final = 1 << 20  # maximum lost rows counted for a damaged part, whatever the file claims


class Part(NamedTuple):
    """Consecutive rows that can be read independently: their number, if the file states it, and their batches."""

    rows: int | None
    batches: Callable[[], Iterable[pa.RecordBatch]]


Table = tuple[pa.Schema, Iterable[Part]]
"""Columns and parts of a table."""


def open_arrow(path: InputFile) -> pa.NativeFile:
    """Open a file for Arrow's readers."""
    return pa.memory_map(str(path)) if isinstance(path, Path) else pa.PythonFile(path.open("rb"), "r")


class TableFile(OneRange, ABC):
    """A reader of tables, batch by batch; a subclass opens its format."""

    kind: ClassVar[str]
    """type of the locator, part of the document uid; `<kind>_error` counts unreadable rows"""

    Options = FieldOptions

    def __init__(self, options: FieldOptions, limits: Limits) -> None:
        self._options = options

    @staticmethod
    def reasons_of(kind: str) -> tuple[str, ...]:
        return (*FIELD_REASONS, "bad_utf8", f"{kind}_error", "schema")

    @abstractmethod
    def table(self, path: InputFile) -> AbstractContextManager[Table]:
        """Open the file."""

    def read(self, path: InputFile, start: int, end: int, account: Account) -> Iterator[Item]:
        """Yield all rows; of a damaged part those before the damage, then the rows of the next part."""
        size, damaged = path.stat().st_size, 0
        try:
            with self.table(path) as (schema, parts):
                if why := explain_unusable(self._options.text_key, schema.names):
                    account.records, account.decoded = 1, size
                    yield Counted("malformed", "schema", lacks=why)
                    return
                kind = schema.field(self._options.text_key).type
                for part in parts:
                    damaged += yield from self._read_part(part, kind, account)
        except _DAMAGE:
            yield Counted("malformed", f"{self.kind}_error", locator=account.records)
            account.records += 1
            damaged += 1
        if damaged and damaged == account.records:
            account.pass_over(f"{self.kind}_error", size)
        else:
            account.decoded = size

    def _read_part(self, part: Part, kind: pa.DataType, account: Account) -> Generator[Item, None, int]:
        """Yield the rows of a part and return how many are lost; these are counted too, so that row indices stay."""
        first = account.records
        try:
            for batch in part.batches():
                for fields in iterate_rows(batch):
                    account.records += 1
                    if fields is None:
                        yield Counted("malformed", "bad_utf8", locator=account.records - 1)
                        continue
                    item = make_record(fields, self._options, self.kind, account.records - 1, 1, span=0)
                    if isinstance(item, Counted) and item.reason == "text_type":
                        wrong = f"column {self._options.text_key!r} has the type {kind}, not text"
                        item = replace(item, lacks=wrong)
                    yield item
        except _DAMAGE:
            lost = 1 if part.rows is None else part.rows - (account.records - first)
            lost = min(max(1, lost), _MOST_LOST)
            start = account.records
            account.records += lost
            yield from (Counted("malformed", f"{self.kind}_error", locator=start + row) for row in range(lost))
            return lost
        return 0


def iterate_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | None]:
    """Yield the rows as plain data; None for a row with invalid UTF-8, which Arrow does not check."""
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        if batch.num_rows == 1:
            yield None
            return
        for index in range(batch.num_rows):
            yield from iterate_rows(batch.slice(index, 1))
