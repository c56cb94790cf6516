"""Arrow tables (IPC files): a row is a document."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from pipeline.table_file import Table, TableFile

__all__ = ["Arrow"]


class Arrow(TableFile):
    """Reads row by row, one record batch at a time."""

    VERSION: ClassVar[int] = 1
    kind: ClassVar[str] = "arrow"
    reasons: ClassVar[tuple[str, ...]] = TableFile.reasons_of("arrow")

    @contextmanager
    def table(self, path: Path) -> Iterator[Table]:
        """Open an IPC file."""
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
            yield file.schema.names, (file.get_batch(number) for number in range(file.num_record_batches))
