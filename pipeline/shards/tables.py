"""Write the Arrow tables next to the shards of a set, and read the counts of its ids."""

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

TOKEN_COUNTS_FILE: Final = "token_counts.arrow"
_TOKEN_COUNTS_SCHEMA: Final = pa.schema(
    [pa.field("id", pa.uint32(), nullable=False), pa.field("count", pa.uint64(), nullable=False)]
)
"""Columns of `token_counts.arrow`: how often each id occurs in the training documents."""
_TABLE_ROWS: Final = 1 << 16


def write_table(path: Path, table: pa.Table, schema: pa.Schema) -> None:
    """Write an Arrow file with zstd buffers; bytes depend only on the rows."""
    stored = table.cast(schema)
    options = pa.ipc.IpcWriteOptions(
        compression=pa.Codec("zstd", compression_level=3), use_threads=False
    )
    with path.open("wb") as file, pa.ipc.new_file(file, schema, options=options) as writer:
        writer.write_table(stored, max_chunksize=_TABLE_ROWS)


def write_token_counts(path: Path, counts: NDArray[np.uint64]) -> None:
    """Write the count of each id in a corpus, [vocabulary size]."""
    columns = [pa.array(np.arange(len(counts)), pa.uint32()), pa.array(counts)]
    write_table(path, pa.table(columns, schema=_TOKEN_COUNTS_SCHEMA), _TOKEN_COUNTS_SCHEMA)


def parse_token_counts(content: bytes | memoryview) -> NDArray[np.uint64]:
    """Return the count of each id from the content of `token_counts.arrow`."""
    table = pa.ipc.open_file(pa.py_buffer(content)).read_all()
    counts: NDArray[np.uint64] = table["count"].to_numpy()
    return counts
