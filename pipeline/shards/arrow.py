"""The Arrow container: one IPC file whose record batches are the blocks."""

import pyarrow as pa

from clozeline.pipeline.shards.file_sink import HashedFile


def message_start(schema: pa.Schema) -> int:
    """Return the offset of the first record batch message: 8 bytes of magic, then the schema message."""
    return 8 + int(schema.serialize().size)


class ArrowContainer:
    """Appends blocks to an Arrow IPC file; Arrow writes magic and schema with the first of them."""

    def __init__(self, sink: HashedFile, schema: pa.Schema, options: pa.ipc.IpcWriteOptions) -> None:
        self._sink = sink
        self._writer = pa.ipc.new_file(pa.PythonFile(sink, mode="w"), schema, options=options)
        self._end = message_start(schema)

    def append(self, batch: pa.RecordBatch) -> tuple[int, bytes]:
        """Write one block; return its offset in the file and its bytes as stored."""
        self._sink.keep()
        self._writer.write_batch(batch)
        written, end = self._sink.take_copy(), self._sink.position
        offset, self._end = self._end, end
        return offset, written[len(written) - (end - offset) :]

    def close(self) -> None:
        self._writer.close()
