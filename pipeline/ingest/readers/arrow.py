"""Read Arrow tables (IPC files and streams): each row is a document."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import pyarrow as pa

from clozeline.pipeline.ingest.formats.decompression import InputFile
from clozeline.pipeline.ingest.readers._tables import Table, TableFileReader, TablePart, open_arrow

_FILE_MAGIC: Final = b"ARROW1"


class ArrowReader(TableFileReader):
    """Reads one record batch at a time; after a damaged batch, a file continues with the next."""

    VERSION = 5
    suffixes = (".arrow", ".feather")
    start = b"ARROW1"
    locator_type = "arrow"

    @contextmanager
    def table(self, path: InputFile) -> Iterator[Table]:
        """Open an IPC file, or a stream as written by `datasets`."""
        with open_arrow(path) as source:
            if source.read(len(_FILE_MAGIC)) == _FILE_MAGIC:
                with pa.ipc.open_file(source) as file:
                    indices = range(file.num_record_batches)
                    yield (
                        file.schema,
                        (
                            TablePart(None, partial(map, file.get_batch, [index]))
                            for index in indices
                        ),
                    )
            else:
                source.seek(0)
                with pa.ipc.open_stream(source) as stream:
                    yield stream.schema, [TablePart(None, partial(iter, stream))]
