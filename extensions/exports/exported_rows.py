"""Read the rows of a shard set for a writer of another format.

Rows are read in order, file by file.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.shards.block import arrow_schema, to_batch


@dataclass(frozen=True)
class ExportedRows:
    """The rows of a set that are exported, `file_rows` to a file; `len` is their number."""

    shards: ShardSet
    file_rows: int

    def __len__(self) -> int:
        return len(self.shards)

    @property
    def file_count(self) -> int:
        """Number of files."""
        return -(-len(self) // self.file_rows)

    @property
    def schema(self) -> pa.Schema:
        """Arrow types of the columns."""
        return arrow_schema(self.shards.columns)

    def files(self) -> Iterator[RowBatch]:
        """Yield the rows of one file after the other."""
        waiting = list[RowBatch]()
        count = 0

        for block in range(len(self.shards.index)):
            rows = self.shards.read_block(block)
            start = 0
            while start < len(rows):
                stop = min(len(rows), start + self.file_rows - count)
                waiting.append(rows.cut(start, stop))
                start, count = stop, count + stop - start
                if count == self.file_rows:
                    yield RowBatch.concatenate(waiting)
                    waiting = []
                    count = 0

        if waiting:
            yield RowBatch.concatenate(waiting)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one file after the other, as Arrow batches."""
        return (to_batch(rows, self.shards.columns, self.schema) for rows in self.files())
