"""Tables in a columnar file: a row is a document, its number the locator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.formats.account import Account
from pipeline.formats.limits import Limits
from pipeline.readers import Counted, Item, OneRange
from pipeline.readers._fields import FIELD_REASONS, FieldOptions, lacks, record_of

__all__ = ["Table", "TableFile"]

Table = tuple[list[str], int | None, Iterator[pa.RecordBatch]]
"""Column names, the number of rows where the file states it, and the batches of rows."""


class TableFile(OneRange, ABC):
    """A reader of tables, batch by batch. A subclass opens its format."""

    kind: ClassVar[str]
    """kind of the locator, part of the document uid; `<kind>_error` counts what cannot be read"""

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(FieldOptions):
        """Names of the columns."""

    def __init__(self, options: Options, limits: Limits) -> None:
        self._options = options

    @staticmethod
    def reasons_of(kind: str) -> tuple[str, ...]:
        """Return the reasons of a table reader."""
        return (*FIELD_REASONS, f"{kind}_error", "schema")

    @abstractmethod
    def table(self, path: Path) -> AbstractContextManager[Table]:
        """Open the file."""

    def read(self, path: Path, start: int, end: int, account: Account) -> Iterator[Item]:
        """Yield all rows; a file that is damaged in the middle gives the rows before the damage."""
        row, records, size = 0, 0, path.stat().st_size
        try:
            with self.table(path) as (names, rows, batches):
                if self._options.text_key not in names:
                    account.records, account.decoded = 1, size
                    yield Counted("malformed", "schema", 0, lacks(self._options.text_key, names))
                    return
                for batch in batches:
                    records += batch.num_rows
                    for fields in batch.to_pylist():
                        yield record_of(fields, self._options, self.kind, row, 1, span=0)
                        row += 1
                account.records, account.decoded = records if rows is None else rows, size
        except (pa.ArrowException, OSError, ValueError):
            account.records = row + 1
            if row:
                account.decoded = size
            else:
                account.pass_over(f"{self.kind}_error", size)
            yield Counted("malformed", f"{self.kind}_error")
