"""Read Parquet tables: each row is a document."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow.parquet

from clozeline.pipeline.ingest.formats.decompression import InputFile
from clozeline.pipeline.ingest.readers._tables import (
    Table,
    TableFileReader,
    TablePart,
    open_arrow,
    rows_at_once,
)


class ParquetReader(TableFileReader):
    """Reads batches of rows; after a damaged row group, it continues with the next."""

    VERSION: ClassVar[int] = 5
    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)
    locator_type: ClassVar[str] = "parquet"

    @contextmanager
    def table(self, path: InputFile) -> Iterator[Table]:
        source = path if isinstance(path, Path) else open_arrow(path)
        with pyarrow.parquet.ParquetFile(source, page_checksum_verification=True) as file:
            groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
            parts = (
                TablePart(
                    group.num_rows,
                    partial(
                        file.iter_batches, rows_at_once(_row_bytes(group)), row_groups=[number]
                    ),
                )
                for number, group in enumerate(groups)
            )
            yield file.schema_arrow, parts


def _row_bytes(group: pyarrow.parquet.RowGroupMetaData) -> int:
    """Return how many bytes a row may have: the whole dictionary, or 1/64 of the values."""
    columns = (group.column(number) for number in range(group.num_columns))
    return sum(
        int(column.total_uncompressed_size * max(_dictionary_share(column), 1 / 64))
        for column in columns
    )


def _dictionary_share(column: pyarrow.parquet.ColumnChunkMetaData) -> float:
    if not column.has_dictionary_page:
        return 0
    size: int = column.data_page_offset - column.dictionary_page_offset
    return size / int(column.total_compressed_size)
