"""Parquet tables: a row is a document."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final

import pyarrow.parquet

from pipeline.readers._tables import Table, TableFile

__all__ = ["Parquet"]

_BATCH_ROWS: Final = 256


class Parquet(TableFile):
    """Reads row by row, in batches."""

    VERSION: ClassVar[int] = 1
    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)
    kind: ClassVar[str] = "parquet"
    reasons: ClassVar[tuple[str, ...]] = TableFile.reasons_of("parquet")

    @contextmanager
    def table(self, path: Path) -> Iterator[Table]:
        """Open a Parquet file."""
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file.schema_arrow.names, file.metadata.num_rows, file.iter_batches(_BATCH_ROWS)
