"""The WebDataset container: a USTAR archive whose members are the blocks, each an Arrow IPC file with one batch.

No time, owner or extended header is written, so the bytes depend on the rows alone. Our readers never parse the
archive: the index points at the record batch message inside the member.
"""

import tarfile
from typing import Final

import pyarrow as pa

from clozeline.errors import IntegrityError
from clozeline.pipeline.shards.arrow import message_start
from clozeline.pipeline.shards.file_sink import HashedFile

_MEMBER_LIMIT: Final = 8 << 30  # USTAR writes sizes with eleven octal digits
_BLOCKS_LIMIT: Final = 10**8  # member names have eight digits, so that they sort


class TarContainer:
    """Appends blocks as members `00000000.arrow`, `00000001.arrow`, ..."""

    def __init__(self, sink: HashedFile, schema: pa.Schema, options: pa.ipc.IpcWriteOptions) -> None:
        self._sink = sink
        self._schema = schema
        self._options = options
        self._blocks = 0

    def append(self, batch: pa.RecordBatch) -> tuple[int, bytes]:
        """Write one member; return the offset of its record batch message in the archive, and the message."""
        memory = pa.BufferOutputStream()
        with pa.ipc.new_file(memory, self._schema, options=self._options) as writer:
            writer.write_batch(batch)
            start, end = message_start(self._schema), memory.tell()
        member = memory.getvalue().to_pybytes()
        if len(member) >= _MEMBER_LIMIT or self._blocks >= _BLOCKS_LIMIT:
            raise IntegrityError(f"tar member {self._blocks} of {len(member)} bytes: write smaller blocks or shards")
        entry = tarfile.TarInfo(f"{self._blocks:08d}.arrow")
        entry.size = len(member)
        self._sink.write(entry.tobuf(tarfile.USTAR_FORMAT))
        offset = self._sink.position + start
        self._sink.write(member)
        self._pad(tarfile.BLOCKSIZE)
        self._blocks += 1
        return offset, member[start:end]

    def close(self) -> None:
        """Write the end mark: two empty blocks, padded to a full record."""
        self._sink.write(bytes(2 * tarfile.BLOCKSIZE))
        self._pad(tarfile.RECORDSIZE)

    def _pad(self, unit: int) -> None:
        self._sink.write(bytes(-self._sink.position % unit))
