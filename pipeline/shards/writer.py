"""Write one shard: rows are cut into blocks, blocks go into an Arrow or tar file, and each byte range gets its hash."""

from __future__ import annotations

import hashlib
import io
import mmap
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal

import pyarrow as pa
import xxhash

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards.columns import ColumnSpec, arrow_schema, block_bytes, cut, holds_ids, to_batch
from clozeline.sealed_json import seal, unseal

BLOCK_ROWS: Final = (1920, 960, 480, 240, 120, 60)
"""Rows of a block that `auto` chooses among."""
_BLOCK_BYTES: Final = 4 << 20
_MEMBER_LIMIT: Final = 8 << 30  # USTAR writes sizes with eleven octal digits
_BLOCKS_LIMIT: Final = 10**8  # member names have eight digits, so that they sort


@dataclass(frozen=True, slots=True)
class Block:
    """Index entry of one block: byte range in its shard, rows, and xxh3-128 of the stored bytes (16 bytes)."""

    offset: int
    length: int
    rows: int
    xxh3: bytes


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """Metadata of one written shard; a final unit merges those of all shards into the manifest."""

    path: str  # file name, relative to the manifest
    bytes: int  # size of the file
    sha256: str  # hex digest of the file
    rows: int  # rows in all blocks
    blocks: tuple[Block, ...]  # in order
    tokens: int  # values of the first column that holds token ids
    longest: int  # most token ids in one row of any column
    largest_block: int  # bytes of the largest block after decompression

    def to_json(self) -> dict[str, Any]:
        """Return plain data with a checksum; blocks as [offset, length, rows, hex digest]."""
        record = {name: getattr(self, name) for name in self.__dataclass_fields__}
        record["blocks"] = [[block.offset, block.length, block.rows, block.xxh3.hex()] for block in self.blocks]
        return seal(record)

    @staticmethod
    def from_json(record: Mapping[str, Any], where: Path | str = "the record of a shard") -> ShardInfo:
        """Return the shard that `to_json` described; `where` is its file, for messages."""
        try:
            facts = unseal(record, where)
            blocks = tuple(Block(at, size, rows, bytes.fromhex(digest)) for at, size, rows, digest in facts["blocks"])
            return ShardInfo(**{**facts, "blocks": blocks})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise IntegrityError(f"not the record of a shard ({error}): {str(record)[:200]}") from error


def auto_block_rows(row_bytes: float) -> int:
    """Return the largest of `BLOCK_ROWS` whose block is at most 4 MiB, for rows of `row_bytes` on average."""
    return next((rows for rows in BLOCK_ROWS if rows * row_bytes <= _BLOCK_BYTES), BLOCK_ROWS[-1])


def write_shard(
    path: Path,
    blocks: Iterable[Rows] | Rows,
    columns: Sequence[ColumnSpec],
    *,
    block_rows: int,
    container: Literal["arrow", "tar"] = "arrow",
    codec: Literal["none", "zstd"] = "none",
    level: int = 3,
    metadata: Mapping[str, str] | None = None,
    name: str | None = None,
) -> ShardInfo:
    """Write one shard at `path`; the bytes depend only on the arguments.

    Args:
        path: file to write; the caller makes it durable and renames it.
        blocks: rows in any portions; they are cut again into blocks of exactly `block_rows`, the last may be short.
        columns: columns in file order; rows must have exactly these.
        block_rows: rows of a block.
        container: `arrow` (one IPC file) or `tar` (WebDataset, a block a member).
        codec: compression of each buffer.
        level: zstd level; no meaning for `none`.
        metadata: facts for people who open the file without the manifest (objective or grouping, tokenizer).
        name: file name that the shard will have next to its manifest; default: that of `path`.

    Raises:
        IntegrityError: rows do not match the columns.
    """
    if block_rows < 1:
        raise IntegrityError(f"block_rows must be at least 1, got {block_rows}")
    schema = arrow_schema(columns, {"clozeline.format": "1", **(metadata or {})})
    compression = pa.Codec("zstd", compression_level=level) if codec == "zstd" else None
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    lists = [spec.name for spec in columns if spec.kind == "list"]
    ids = [spec.name for spec in columns if holds_ids(spec)]
    counts: list[int] = []
    tokens = longest = largest = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal tokens, longest, largest
        for rows in _recut([blocks] if isinstance(blocks, Rows) else blocks, block_rows):
            yield (batch := to_batch(rows, columns, schema))
            values = {name: int(rows.columns[name].lengths.sum()) for name in lists}
            counts.append(batch.num_rows)
            tokens += values[ids[0]] if ids else 0
            longest = max([longest, *(int(rows.columns[name].lengths.max()) for name in ids)])
            largest = max(largest, block_bytes(columns, len(rows), list(values.values())))

    with path.open("w+b") as file:
        ranges = (_write_arrow if container == "arrow" else _write_tar)(file, batches(), schema, options)
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as stored, memoryview(stored) as content:
            size, sha256 = len(content), hashlib.sha256(content).hexdigest()
            hashes = [xxhash.xxh3_128_digest(content[start:end]) for start, end in ranges]
    written = tuple(
        Block(start, end - start, rows, digest)
        for (start, end), rows, digest in zip(ranges, counts, hashes, strict=True)
    )
    return ShardInfo(name or path.name, size, sha256, sum(counts), written, tokens, longest, largest)


def _write_arrow(
    file: IO[bytes], batches: Iterable[pa.RecordBatch], schema: pa.Schema, options: pa.ipc.IpcWriteOptions
) -> list[tuple[int, int]]:
    """Write an Arrow IPC file whose record batches are the blocks; return the byte range of each."""
    start, ranges = _first_message(schema), []
    with pa.ipc.new_file(file, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
            ranges.append((start, start := file.tell()))
    return ranges


def _write_tar(
    file: IO[bytes], batches: Iterable[pa.RecordBatch], schema: pa.Schema, options: pa.ipc.IpcWriteOptions
) -> list[tuple[int, int]]:
    """Write a WebDataset archive (USTAR) whose members are the blocks, each an Arrow IPC file with one batch.

    No time, owner or extended header is written, so the bytes depend on the rows alone. Our readers never parse the
    archive: the range of a block is its record batch message inside the member.
    """
    ranges = []
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for number, batch in enumerate(batches):
            member = io.BytesIO()
            [(start, end)] = _write_arrow(member, [batch], schema, options)
            entry = tarfile.TarInfo(f"{number:08d}.arrow")
            entry.size = member.tell()
            if entry.size >= _MEMBER_LIMIT or number >= _BLOCKS_LIMIT:
                raise IntegrityError(f"tar member {number} of {entry.size} bytes: write smaller blocks or shards")
            data = file.tell() + tarfile.BLOCKSIZE  # after the header of the member
            member.seek(0)
            archive.addfile(entry, member)
            ranges.append((data + start, data + end))
    return ranges


def _first_message(schema: pa.Schema) -> int:
    """Return the offset of the first record batch in an Arrow file: 8 bytes of magic, then the schema message."""
    return 8 + int(schema.serialize().size)


def _recut(portions: Iterable[Rows], size: int) -> Iterator[Rows]:
    """Yield the same rows in portions of exactly `size`; only the last may be shorter, and none is empty."""
    pending: list[Rows] = []
    buffered = 0
    for portion in portions:
        start = 0
        while buffered + len(portion) - start >= size:
            stop = start + size - buffered
            yield _concatenate([*pending, cut(portion, start, stop)])
            pending, buffered, start = [], 0, stop
        if start < len(portion):
            pending.append(cut(portion, start, len(portion)))
            buffered += len(portion) - start
    if buffered:
        yield _concatenate(pending)


def _concatenate(parts: Sequence[Rows]) -> Rows:
    return parts[0] if len(parts) == 1 else Rows.concatenate(parts)
