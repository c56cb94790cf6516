"""Write shard sets: each unit writes one shard, and a final unit writes index and manifest.

The rows of a shard are cut into blocks, which are written to an Arrow or tar file. The byte range
of each block is hashed.
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Final, Literal, Protocol, Self

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.columns import Feature
from clozeline.errors import ConfigurationError, IntegrityError, StorageError
from clozeline.files import parse_json, read_json, read_text
from clozeline.pipeline.block_options import BlockRows, Codec, Compression, Container
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards.block import (
    ColumnSpec,
    arrow_schema,
    base_columns,
    block_bytes,
    feature_columns,
    holds_ids,
    to_batch,
)
from clozeline.pipeline.shards.index import Block, write_index
from clozeline.pipeline.shards.layout import block_rows_of, shard_name
from clozeline.pipeline.shards.manifest import (
    ENTRY_LIMIT,
    FORMAT,
    SHARD_LIMIT,
    SIZE_LIMIT,
    Manifest,
    ManifestError,
    canonical_sha256,
    check_entries,
    first_problem,
    manifest_text,
)
from clozeline.pipeline.shards.tables import TOKEN_COUNTS_FILE, write_token_counts
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.repair import rebuild_hint

_MEMBER_LIMIT: Final = 8 << 30  # USTAR writes sizes with eleven octal digits
_BLOCKS_LIMIT: Final = 10**8  # member names have eight digits, so that they sort


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """Metadata of one written shard, which the final unit merges into the manifest."""

    path: str
    """file name, relative to the manifest"""
    bytes: int
    """size of the file"""
    sha256: str
    """hex digest of the file"""
    rows: int
    """rows in all blocks"""
    blocks: tuple[Block, ...]
    """blocks in order"""
    tokens: int
    """values of the first column of token ids"""
    longest: int
    """most token ids in one row of any column"""
    largest_block: int
    """decompressed bytes of the largest block"""

    def to_json(self) -> dict[str, object]:
        """Return the fields with a checksum; blocks as [offset, length, rows, hex digest]."""
        record = {name: getattr(self, name) for name in self.__dataclass_fields__}
        record["blocks"] = [
            [block.offset, block.length, block.rows, block.xxh3.hex()] for block in self.blocks
        ]
        return add_checksum(record)

    @staticmethod
    def from_json(
        record: Mapping[str, object], where: Path | str = "the record of a shard"
    ) -> ShardInfo:
        """Return the shard from the result of `to_json`; messages name its file by `where`."""
        try:
            fields = verify_checksum(record, where)
            blocks = tuple(
                Block(offset, size, rows, bytes.fromhex(digest))
                for offset, size, rows, digest in fields["blocks"]
            )
            return ShardInfo(**{**fields, "blocks": blocks})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise IntegrityError(
                f"not the record of a shard ({error}): {str(record)[:200]}"
            ) from error


def write_shard(
    path: Path,
    blocks: Iterable[RowBatch] | RowBatch,
    columns: Sequence[ColumnSpec],
    *,
    block_rows: int,
    container: Container = "arrow",
    codec: Codec = "none",
    level: int = 3,
    metadata: Mapping[str, str] | None = None,
    name: str | None = None,
) -> ShardInfo:
    """Write one shard at `path`; the bytes depend only on the arguments.

    Args:
        path: file to write; the caller syncs and renames it.
        blocks: rows in portions of any size; they are cut into blocks of exactly `block_rows`, the
            last may be shorter.
        columns: columns in file order; rows must have exactly these.
        block_rows: rows per block.
        container: `arrow` (one IPC file) or `tar` (WebDataset, one member per block).
        codec: compression of each buffer.
        level: zstd level; ignored for `none`.
        metadata: information for people who open the file without the manifest (objective or
            grouping, tokenizer).
        name: final file name of the shard, next to its manifest; default: the name of `path`.

    Raises:
        IntegrityError: rows do not match the columns.
    """
    if block_rows < 1:
        raise IntegrityError(f"block_rows must be at least 1, got {block_rows}")
    schema = arrow_schema(columns, {"clozeline.format": "1", **(metadata or {})})
    compression = None if codec == "none" else pa.Codec(codec, compression_level=level)
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    lists = [spec.name for spec in columns if spec.kind == "list"]
    ids = [spec.name for spec in columns if holds_ids(spec)]
    counts: list[int] = []
    tokens = longest = largest = 0

    def iter_batches() -> Iterator[pa.RecordBatch]:
        nonlocal tokens, longest, largest
        for rows in _recut([blocks] if isinstance(blocks, RowBatch) else blocks, block_rows):
            yield (batch := to_batch(rows, columns, schema))
            values = {name: int(rows.columns[name].lengths.sum()) for name in lists}
            counts.append(batch.num_rows)
            tokens += values[ids[0]] if ids else 0
            longest = max([longest, *(int(rows.columns[name].lengths.max()) for name in ids)])
            largest = max(largest, block_bytes(columns, len(rows), list(values.values())))

    write = _write_arrow if container == "arrow" else _write_tar

    with path.open("w+b") as file:
        ranges = write(file, iter_batches(), schema, options)
        file.flush()
        with (
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as stored,
            memoryview(stored) as content,
        ):
            size = len(content)
            sha256 = hashlib.sha256(content).hexdigest()
            hashes = [xxhash.xxh3_128_digest(content[start:end]) for start, end in ranges]

    written = tuple(
        Block(start, end - start, rows, digest)
        for (start, end), rows, digest in zip(ranges, counts, hashes, strict=True)
    )
    return ShardInfo(
        name or path.name, size, sha256, sum(counts), written, tokens, longest, largest
    )


def _write_arrow(
    file: IO[bytes],
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    options: pa.ipc.IpcWriteOptions,
) -> list[tuple[int, int]]:
    """Write an Arrow IPC file, one record batch per block; return the byte range of each."""
    start = _first_message(schema)
    ranges = []
    with pa.ipc.new_file(file, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
            ranges.append((start, start := file.tell()))
    return ranges


def _write_tar(
    file: IO[bytes],
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    options: pa.ipc.IpcWriteOptions,
) -> list[tuple[int, int]]:
    """Write a WebDataset archive (USTAR), one Arrow IPC file per block; return the byte ranges.

    No time, owner or extended header is written, so the bytes depend only on the rows. Our readers
    never parse the archive: the range of a block is its record batch message inside the member.
    """
    ranges = []

    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for number, batch in enumerate(batches):
            member = io.BytesIO()
            [(start, end)] = _write_arrow(member, [batch], schema, options)
            entry = tarfile.TarInfo(f"{number:08d}.arrow")
            entry.size = member.tell()
            if entry.size >= _MEMBER_LIMIT or number >= _BLOCKS_LIMIT:
                raise IntegrityError(
                    f"tar member {number} of {entry.size} bytes: write smaller blocks or shards"
                )
            data = file.tell() + tarfile.BLOCKSIZE  # after the header of the member
            member.seek(0)
            archive.addfile(entry, member)
            ranges.append((data + start, data + end))

    return ranges


def _first_message(schema: pa.Schema) -> int:
    """Return the offset of the first record batch: after 8 magic bytes and the schema message."""
    return 8 + int(schema.serialize().size)


def _recut(portions: Iterable[RowBatch], size: int) -> Iterator[RowBatch]:
    """Yield the same rows in portions of exactly `size`; the last may be shorter, none is empty."""
    pending: list[RowBatch] = []
    buffered = 0

    for portion in portions:
        start = 0
        while buffered + len(portion) - start >= size:
            stop = start + size - buffered
            yield _concatenate([*pending, portion.cut(start, stop)])
            pending = []
            buffered = 0
            start = stop
        if start < len(portion):
            pending.append(portion.cut(start, len(portion)))
            buffered += len(portion) - start

    if buffered:
        yield _concatenate(pending)


def _concatenate(parts: Sequence[RowBatch]) -> RowBatch:
    return parts[0] if len(parts) == 1 else RowBatch.concatenate(parts)


class Outputs(Protocol):
    """Publishes files: `file` yields a temporary path, and renames it on success."""

    @property
    def folder(self) -> Path:
        """Folder to which names are relative."""

    def file(self, relative: str) -> AbstractContextManager[Path]:
        """Yield a temporary path for `relative`."""


@dataclass(frozen=True)
class SetWriter:
    """Writes the shards of one set; all units of a set must use equal writers."""

    path: str
    """folder of the set in the output folder; empty: the output folder"""
    shards: int
    """number of shards"""
    columns: Sequence[ColumnSpec]
    """columns in file order"""
    block_rows: int
    container: Container = "arrow"
    compression: Compression = field(default_factory=Compression)
    metadata: Mapping[str, str] = field(default_factory=dict)
    """information for people who open a shard without its manifest"""

    def __post_init__(self) -> None:
        if self.shards > SHARD_LIMIT:
            raise ConfigurationError(
                f"{self.path}: {self.shards} shards, the limit is {SHARD_LIMIT}: write larger "
                "shards (plan.shard_bytes) or fewer variants"
            )

    @classmethod
    def of_rows(
        cls,
        path: str,
        shards: int,
        features: Sequence[Feature],
        vocabulary: Vocabulary,
        length: int,
        block_rows: BlockRows,
        metadata: Mapping[str, str],
        **options: Any,
    ) -> Self:
        """Return the writer of a set of samples or examples with up to `length` content tokens."""
        columns = [*base_columns(), *feature_columns(features, vocabulary.size)]
        rows = block_rows_of(block_rows, features, length, np.dtype(vocabulary.id_dtype).itemsize)
        return cls(
            path,
            shards,
            columns,
            rows,
            metadata={**metadata, "tokenizer": vocabulary.fingerprint},
            **options,
        )

    def write_shard(
        self, output: Outputs, shard: int, rows: Iterable[RowBatch] | RowBatch
    ) -> ShardInfo:
        """Write a shard, and its metadata as an intermediate file."""
        name = shard_name(shard, self.shards, self.container)
        with output.file(f"{self.path}/{name}" if self.path else name) as path:
            info = write_shard(
                path,
                rows,
                self.columns,
                block_rows=self.block_rows,
                container=self.container,
                codec=self.compression.codec,
                level=self.compression.level,
                metadata=self.metadata,
                name=name,
            )

        with output.file(self.info_name(shard)) as path:
            path.write_text(json.dumps(info.to_json()), encoding="utf-8")
        return info

    def is_written(self, output: Outputs, shard: int) -> bool:
        """Return whether an earlier process has published a shard and its metadata."""
        record = read_json(output.folder / self.info_name(shard)) or {}
        path = output.folder / self.path / shard_name(shard, self.shards, self.container)
        return path.is_file() and path.stat().st_size == record.get("bytes")

    def info_name(self, shard: int) -> str:
        """Return the name of the metadata of a shard."""
        if not self.path:
            return f"tmp/shards/{shard:06d}.json"
        return f"tmp/{self.path}/{shard_name(shard, self.shards, self.container)}.json"

    def write_manifest(
        self, output: Outputs, read: Callable[[int, str], str] | None = None, **fields: Any
    ) -> Manifest:
        """Write index and manifest after all shards; `fields` are further keys of the manifest.

        `read` returns the metadata of a shard, given its number and the name of the file; by
        default it is read from the folder of the output.
        """
        infos = []

        for shard in range(self.shards):
            path = output.folder / self.info_name(shard)
            name = shard_name(shard, self.shards, self.container)

            try:
                text = read_text(path) if read is None else read(shard, self.info_name(shard))
                infos.append(ShardInfo.from_json(parse_json(text), path))
            except FileNotFoundError as error:
                raise StorageError(f"{path}: missing; {rebuild_hint(path)}") from error
            except (OSError, ValueError, IntegrityError) as error:
                raise IntegrityError(f"{path}: damaged ({error}); {rebuild_hint(path)}") from error

            if (got := infos[-1].path) != name:
                raise IntegrityError(
                    f"{path}: expected the record of {name}, got {got}; {rebuild_hint(path)}"
                )

        return write_manifest(
            output.folder / self.path,
            columns=self.columns,
            block_rows=self.block_rows,
            container=self.container,
            codec=self.compression.codec,
            level=self.compression.level,
            shards=infos,
            output=output,
            **fields,
        )


def write_manifest(
    folder: Path,
    *,
    name: str,
    kind: Literal["tokens", "samples", "examples", "columns"],
    seed: int,
    tokenizer: Mapping[str, Any],
    columns: Sequence[ColumnSpec],
    block_rows: int,
    container: Container,
    codec: Codec,
    level: int = 3,
    shards: Sequence[ShardInfo],
    output: Outputs,
    totals: Mapping[str, Any] | None = None,
    token_counts: NDArray[np.uint64] | None = None,
    **fields: Any,
) -> Manifest:
    """Write `index.arrow`, then `manifest.json`, for shards that exist in `folder`, in this order.

    `folder` lies in `output.folder`. The seed and `name` decide the order of the stream. The
    arguments from `columns` to `level` are equal to those of `write_shard`, which returned
    `shards`. `tokenizer` has the keys `name`, `fingerprint`, `vocab_size`, `special_ids` and
    `sentinels`. `totals` has `tokens_by_language`, `tokens_by_source` and `skipped`; the other
    totals are computed here. `token_counts` [vocabulary size] says how often each id occurs in the
    corpus. `fields` are other keys of the manifest: `grouping`, `objective`,
    `config`, ...
    """
    prefix = folder.relative_to(output.folder)
    with output.file(str(prefix / "index.arrow")) as path:
        write_index(path, [shard.blocks for shard in shards])
        index = _describe_file("index.arrow", path)
    if token_counts is not None:
        with output.file(str(prefix / TOKEN_COUNTS_FILE)) as path:
            write_token_counts(path, token_counts)
            fields["token_counts"] = _describe_file(TOKEN_COUNTS_FILE, path)

    listed = [
        {
            "path": shard.path,
            "bytes": shard.bytes,
            "sha256": shard.sha256,
            "blocks": len(shard.blocks),
            "rows": shard.rows,
        }
        for shard in shards
    ]

    counted = {
        "samples": sum(shard.rows for shard in shards),
        "tokens": sum(shard.tokens for shard in shards),
        "blocks": sum(len(shard.blocks) for shard in shards),
        "shards": len(shards),
        "bytes": sum(shard.bytes for shard in shards),
    }

    content = {
        **fields,
        "format": FORMAT,
        "name": name,
        "kind": kind,
        "seed": seed,
        "tokenizer": dict(tokenizer),
        "columns": [spec.as_dict() for spec in columns],
        "max_length": max((shard.longest for shard in shards), default=0),
        "block_rows": block_rows,
        "max_block_bytes": max((shard.largest_block for shard in shards), default=0),
        "container": container,
        "compression": {"codec": codec, "level": None if codec == "none" else level},
        "totals": {**(totals or {}), **counted},
        "index": index,
        "shards": listed,
        "code": {"package_version": version("clozeline")},
    }

    try:
        manifest = Manifest.model_validate_json(json.dumps(content, allow_nan=False))
    except ValueError as error:
        raise ManifestError(
            f"{folder}: the manifest would be invalid: {first_problem(error)}"
        ) from error

    stored = manifest.model_dump(mode="json", exclude={"checksum"})
    stored["checksum"] = canonical_sha256(stored)
    text = manifest_text(stored).encode()
    if len(text) > SIZE_LIMIT:
        raise ManifestError(
            f"{folder}: the manifest would have {len(text)} bytes, the limit is {SIZE_LIMIT}"
        )

    check_entries(folder / "manifest.json", text, ENTRY_LIMIT)
    with output.file(str(prefix / "manifest.json")) as path:
        path.write_bytes(text)
    return manifest


def _describe_file(name: str, path: Path) -> dict[str, object]:
    raw = path.read_bytes()
    return {"path": name, "sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
