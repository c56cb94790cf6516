"""Read Parquet tables: each row is a document."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

import pyarrow.parquet

from clozeline.pipeline.ingest.formats.decompression import InputFile
from clozeline.pipeline.ingest.readers._tables import Table, TableFileReader, TablePart, open_arrow

_BATCH_ROWS: Final = 256


class ParquetReader(TableFileReader):
    """Reads batches of rows; after a damaged row group, it continues with the next."""

    VERSION: ClassVar[int] = 5
    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)
    locator_type: ClassVar[str] = "parquet"

    @contextmanager
    def table(self, path: InputFile) -> Iterator[Table]:
        source = path if isinstance(path, Path) else open_arrow(path)
        with pyarrow.parquet.ParquetFile(source, page_checksum_verification=True) as file:
            metadata = file.metadata
            rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            read = partial(file.iter_batches, _BATCH_ROWS)
            parts = (
                TablePart(count, partial(read, row_groups=[group]))
                for group, count in enumerate(rows)
            )
            yield file.schema_arrow, parts
