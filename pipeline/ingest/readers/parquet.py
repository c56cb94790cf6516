"""Read Parquet tables: each row is a document."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow.parquet

from clozeline.pipeline.ingest.formats.decompression import InputFile
from clozeline.pipeline.ingest.readers._tables import (
    Table,
    TableFileReader,
    TablePart,
    open_arrow,
    rows_at_once,
)

_LEAST_ROWS: Final = 16
"""Minimum rows of a batch, because fewer take several times as long."""


class ParquetReader(TableFileReader):
    """Reads batches of rows; after a damaged row group, it continues with the next."""

    VERSION = 5
    suffixes = (".parquet",)
    start = b"PAR1"
    locator_type = "parquet"

    @contextmanager
    def table(self, path: InputFile) -> Iterator[Table]:
        source = path if isinstance(path, Path) else open_arrow(path)
        with pyarrow.parquet.ParquetFile(source, page_checksum_verification=True) as file:
            # Arrow ends the process where metadata of a column are damaged, so none are read
            groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
            parts = (
                TablePart(
                    group.num_rows,
                    partial(
                        file.iter_batches,
                        max(_LEAST_ROWS, rows_at_once(group.total_byte_size)),
                        row_groups=[number],
                    ),
                )
                for number, group in enumerate(groups)
            )
            yield file.schema_arrow, parts
