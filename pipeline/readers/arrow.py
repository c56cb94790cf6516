"""Arrow tables (IPC files): a row is a document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.readers import Counted, Item
from pipeline.recipe import Limits
from pipeline.record_fields import FIELD_REASONS, FieldOptions, record_of

__all__ = ["Arrow"]


class Arrow:
    """Reads row by row, one record batch at a time; the locator is the row number."""

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = (*FIELD_REASONS, "arrow_error", "schema")

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(FieldOptions):
        """Names of the columns."""

    def __init__(self, options: Options, limits: Limits) -> None:
        self._options = options

    @staticmethod
    def splittable(head: bytes) -> bool:
        """Not by bytes."""
        return False

    def read(self, path: Path, start: int, end: int) -> Iterator[Item]:
        """All rows; a file that breaks in the middle gives the rows before."""
        row = 0
        try:
            with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
                if self._options.text_key not in file.schema.names:
                    yield Counted("malformed", "schema", path.stat().st_size)
                    return
                for number in range(file.num_record_batches):
                    for fields in file.get_batch(number).to_pylist():
                        yield record_of(fields, self._options, "arrow", row, 1)
                        row += 1
        except (pa.ArrowException, OSError, ValueError):
            yield Counted("malformed", "arrow_error", path.stat().st_size if row == 0 else 0)
