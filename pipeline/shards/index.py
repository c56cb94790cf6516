"""Read and write `index.arrow`: byte range and hash of each block, 40 bytes per block.

It is decoded like a block, because Arrow's reader would trust the sizes that a file claims.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards.block import (
    BlockError,
    ColumnSpec,
    Dtype,
    arrow_schema,
    decode,
    to_batch,
)
from clozeline.pipeline.shards.manifest import Manifest, ManifestError
from clozeline.repair import rebuild_hint

_TYPE_BY_COLUMN: Final[dict[str, Dtype]] = {
    "shard": "uint32",
    "block": "uint32",
    "offset": "uint64",
    "length": "uint32",
    "rows": "uint32",
    "xxh3": "binary16",
}
_COLUMNS: Final = [ColumnSpec(name, dtype, "fixed", "") for name, dtype in _TYPE_BY_COLUMN.items()]
_SCHEMA: Final = arrow_schema(_COLUMNS)
_LENGTH_LIMIT: Final = 1 << 32
_ENTRY_BYTES: Final = sum(spec.width for spec in _COLUMNS)


@dataclass(frozen=True, slots=True)
class Block:
    """Index entry of a block: byte range in its shard, rows, and xxh3-128 of the stored bytes."""

    offset: int
    length: int
    rows: int
    xxh3: bytes


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """Arrays with one entry per block, in (shard, block) order; `xxh3` has shape [n, 16]."""

    shard: NDArray[np.uint32]
    block: NDArray[np.uint32]
    offset: NDArray[np.uint64]
    length: NDArray[np.uint32]
    rows: NDArray[np.uint32]
    xxh3: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.shard)


def write_index(path: Path, shards: Sequence[Sequence[Block]]) -> None:
    """Write the index of the blocks of all shards, uncompressed."""
    blocks = [
        (number, index, block)
        for number, shard in enumerate(shards)
        for index, block in enumerate(shard)
    ]
    if any(block.length >= _LENGTH_LIMIT for _, _, block in blocks):
        raise ManifestError(f"{path}: a block has 4 GiB or more; write smaller blocks")

    numbers = [
        (number, index, block.offset, block.length, block.rows) for number, index, block in blocks
    ]
    columns = np.array(numbers, np.int64).reshape(-1, 5).T
    fixed: dict[str, NDArray[Any]] = dict(zip(_TYPE_BY_COLUMN, columns, strict=False))
    fixed["xxh3"] = np.frombuffer(b"".join(block.xxh3 for _, _, block in blocks), np.uint8).reshape(
        -1, 16
    )
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
        writer.write_batch(to_batch(RowBatch(fixed), _COLUMNS, _SCHEMA))


def parse_index(where: str, raw: bytes | memoryview, manifest: Manifest) -> BlockIndex:
    """Return the blocks of an index.

    Raises:
        ManifestError: the content of the index contradicts the manifest.
    """
    blocks = manifest.totals.blocks

    try:
        index = _parse(raw, blocks)
        _compare(index, manifest)
    except BlockError as error:
        raise ManifestError(
            f"{where}: not an index of {blocks} blocks: {error}; {rebuild_hint(where)}"
        ) from error

    return index


def _parse(raw: bytes | memoryview, blocks: int) -> BlockIndex:
    if blocks * _ENTRY_BYTES > len(raw):
        raise BlockError(f"at least {blocks * _ENTRY_BYTES} bytes", f"{len(raw)}")
    try:
        stream = pa.BufferReader(raw)
        stream.seek(8)  # the magic word
        schema = pa.ipc.read_schema(stream)
    except (pa.ArrowException, OSError) as error:
        raise BlockError("an Arrow file", f"unreadable bytes ({error})") from error

    if schema != _SCHEMA:
        raise BlockError(f"the columns {_SCHEMA.names}", "others")
    if blocks == 0:  # Arrow omits the row count of an empty batch, which `decode` needs
        empty = {spec.name: np.empty(0, spec.dtype) for spec in _COLUMNS[:-1]}
        return BlockIndex(**empty, xxh3=np.empty((0, 16), np.uint8))

    return BlockIndex(
        **decode(memoryview(raw)[stream.tell() :], _COLUMNS, blocks, blocks * _ENTRY_BYTES).fixed
    )


def _compare(index: BlockIndex, manifest: Manifest) -> None:
    """Raise BlockError unless the index matches the shards and rows of the manifest."""
    shards = manifest.shards
    counts, rows, sizes = (
        np.array([getattr(shard, name) for shard in shards], np.int64)
        for name in ("blocks", "rows", "bytes")
    )

    # blocks in order, each with the size that the manifest gives
    ordered = np.repeat(np.arange(len(shards)), counts)
    numbers = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
    if (index.shard != ordered).any() or (index.block != numbers).any():
        raise BlockError(f"the blocks of {len(shards)} shards in order", "others")
    together = ordered[1:] == ordered[:-1]
    full = np.append(together, False)[: len(index)]  # all but the last block of each shard
    wrong = (
        (index.rows < 1)
        | (index.rows > manifest.block_rows)
        | (full & (index.rows != manifest.block_rows))
    )
    if wrong.any():
        number = int(np.flatnonzero(wrong)[0])
        raise BlockError(f"{manifest.block_rows} rows in block {number}", f"{index.rows[number]}")

    # sums per shard, and byte ranges that lie in their shard and do not overlap
    if (np.bincount(index.shard, index.rows, len(shards)) != rows).any():
        raise BlockError("as many rows of each shard as in the manifest", "others")
    offset = index.offset
    length = index.length
    if (length < 1).any() or (offset.astype(np.float64) + length > sizes[ordered]).any():
        raise BlockError("blocks inside their shards", "one that lies outside")
    if (together & ((offset[1:] < offset[:-1]) | (offset[1:] - offset[:-1] < length[:-1]))).any():
        raise BlockError("blocks one after another", "two that share bytes of a shard")
