"""Read Parquet tables: a row is a document."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

import pyarrow.parquet

from clozeline.pipeline.ingest.readers._tables import Part, Table, TableFile

_BATCH_ROWS: Final = 256


class Parquet(TableFile):
    """Reads in batches of rows; after a damaged row group, continues with the next one."""

    VERSION: ClassVar[int] = 2
    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)
    kind: ClassVar[str] = "parquet"
    reasons: ClassVar[tuple[str, ...]] = TableFile.reasons_of("parquet")

    @contextmanager
    def table(self, path: Path) -> Iterator[Table]:
        """Open a Parquet file."""
        with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            yield (
                file.schema_arrow,
                (
                    Part(
                        file.metadata.row_group(group).num_rows,
                        partial(file.iter_batches, _BATCH_ROWS, row_groups=[group]),
                    )
                    for group in range(file.metadata.num_row_groups)
                ),
            )
