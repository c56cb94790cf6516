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
from pipeline.formats.limits import Limits
from pipeline.readers import Counted, Item
from pipeline.readers._fields import FIELD_REASONS, FieldOptions, record_of

__all__ = ["Table", "TableFile"]

Table = tuple[list[str], Iterator[pa.RecordBatch]]
"""Column names, and the batches of rows."""


class TableFile(ABC):
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

    @staticmethod
    def splittable(head: bytes) -> bool:
        """Return False: rows have no byte ranges."""
        return False

    @abstractmethod
    def table(self, path: Path) -> AbstractContextManager[Table]:
        """Open the file."""

    def read(self, path: Path, start: int, end: int) -> Iterator[Item]:
        """Yield all rows; a file that is damaged in the middle gives the rows before the damage."""
        row = 0
        try:
            with self.table(path) as (names, batches):
                if self._options.text_key not in names:
                    yield Counted("malformed", "schema", path.stat().st_size)
                    return
                for batch in batches:
                    for fields in batch.to_pylist():
                        yield record_of(fields, self._options, self.kind, row, 1)
                        row += 1
        except (pa.ArrowException, OSError, ValueError):
            yield Counted("malformed", f"{self.kind}_error", path.stat().st_size if row == 0 else 0)
