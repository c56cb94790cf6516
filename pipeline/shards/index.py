"""`index.arrow`: one row a block, with its byte range and hash; 40 bytes a block, read whole."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.shards.errors import ManifestError
from pipeline.shards.shard import ShardInfo

__all__ = ["BlockIndex", "read_index", "write_index"]

_SCHEMA: Final = pa.schema(
    [
        pa.field("shard", pa.uint32(), nullable=False),
        pa.field("block", pa.uint32(), nullable=False),
        pa.field("offset", pa.uint64(), nullable=False),
        pa.field("length", pa.uint32(), nullable=False),
        pa.field("rows", pa.uint32(), nullable=False),
        pa.field("xxh3", pa.binary(16), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """Arrays with one entry a block, in (shard, block) order; `xxh3` has shape [n, 16]."""

    shard: NDArray[np.uint32]
    block: NDArray[np.uint32]
    offset: NDArray[np.uint64]
    length: NDArray[np.uint32]
    rows: NDArray[np.uint32]
    xxh3: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.shard)


def write_index(path: Path, shards: Sequence[ShardInfo]) -> None:
    """Write the blocks of all shards, uncompressed."""
    blocks = [(number, place, block) for number, shard in enumerate(shards) for place, block in enumerate(shard.blocks)]
    if any(block.length >= 1 << 32 for _, _, block in blocks):
        raise ManifestError(f"{path}: a block of 4 GiB or more; write smaller blocks")
    digests = pa.py_buffer(b"".join(block.xxh3 for _, _, block in blocks))
    batch = pa.record_batch(
        [
            pa.array([number for number, _, _ in blocks], pa.uint32()),
            pa.array([place for _, place, _ in blocks], pa.uint32()),
            pa.array([block.offset for _, _, block in blocks], pa.uint64()),
            pa.array([block.length for _, _, block in blocks], pa.uint32()),
            pa.array([block.rows for _, _, block in blocks], pa.uint32()),
            pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(blocks), [None, digests]),
        ],
        schema=_SCHEMA,
    )
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
        writer.write_batch(batch)


def read_index(path: Path, size: int, sha256: str) -> BlockIndex:
    """Read an index of `size` bytes; nothing is parsed before size and hash agree with the manifest.

    Raises:
        ManifestError: the file is missing or is not the one that the manifest names.
    """
    try:
        found = path.stat().st_size
        if found != size:
            raise ManifestError(f"{path}: expected {size} bytes as the manifest says, got {found}")
        raw = path.read_bytes()
    except OSError as error:
        raise ManifestError(f"{path}: the manifest names this index, but it cannot be read ({error})") from error
    digest = hashlib.sha256(raw).hexdigest()
    if digest != sha256:
        raise ManifestError(f"{path}: expected SHA-256 {sha256}, got {digest}; copy the shard set again")
    try:
        with pa.ipc.open_file(pa.py_buffer(raw)) as reader:
            if reader.schema != _SCHEMA or reader.num_record_batches != 1:
                raise ManifestError(f"{path}: expected one batch with the columns {_SCHEMA.names}")
            batch = reader.get_batch(0)
    except pa.ArrowException as error:
        raise ManifestError(f"{path}: not an Arrow file ({error})") from error
    plain = {name: batch.column(name).to_numpy() for name in _SCHEMA.names[:-1]}
    digests = np.frombuffer(batch.column("xxh3").buffers()[1] or b"", np.uint8, 16 * batch.num_rows)
    return BlockIndex(**plain, xxh3=digests.reshape(-1, 16))
