"""Writing shards: rows are cut into blocks, blocks go into a container, and every byte range gets its hash."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import xxhash

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards.arrow import ArrowContainer
from clozeline.pipeline.shards.block import raw_block_bytes
from clozeline.pipeline.shards.columns import ColumnSpec, arrow_schema, cut, holds_ids, to_batch
from clozeline.pipeline.shards.file_sink import HashedFile
from clozeline.pipeline.shards.shard import Block, ShardInfo
from clozeline.pipeline.shards.tar import TarContainer

BLOCK_ROWS: Final = (1920, 960, 480, 240, 120, 60)
"""Rows of a block that `auto` chooses among."""
_BLOCK_BYTES: Final = 4 << 20

_CONTAINERS: Final[Mapping[str, type[ArrowContainer | TarContainer]]] = {"arrow": ArrowContainer, "tar": TarContainer}


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
    written: list[Block] = []
    tokens = longest = largest = 0
    with path.open("wb") as file:
        sink = HashedFile(file)
        target = _CONTAINERS[container](sink, schema, options)
        for rows in _recut([blocks] if isinstance(blocks, Rows) else blocks, block_rows):
            batch = to_batch(rows, columns, schema)
            offset, stored = target.append(batch)
            written.append(Block(offset, len(stored), batch.num_rows, xxhash.xxh3_128_digest(stored)))
            values = {name: int(rows.columns[name].lengths.sum()) for name in lists}
            largest = max(largest, raw_block_bytes(columns, len(rows), list(values.values())))
            longest = max([longest, *(int(rows.columns[name].lengths.max()) for name in ids)])
            tokens += values[ids[0]] if ids else 0
        target.close()
    count, facts = sum(block.rows for block in written), (tuple(written), tokens, longest, largest)
    return ShardInfo(name or path.name, sink.position, sink.hexdigest(), count, *facts)


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
