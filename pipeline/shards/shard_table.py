"""Metadata of shard files: a list inside the manifest, or from 100,000 shards on a Parquet file next to it.

A million entries take a minute of parsing and a gigabyte of objects as JSON; as columns they take a second and 130 MB.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, FailFast, Field, TypeAdapter, field_validator

from clozeline.pipeline.shards.bounded_reading import read_regular
from clozeline.pipeline.shards.errors import ManifestError
from clozeline.repair import repair_of

SHARDS_FILE: Final = "shards.parquet"
_ROW_LIMIT: Final = 1024
_FOOTER: Final = 1 << 16
_FORBIDDEN: Final = r"(^|/)(\.{0,2})(/|$)|[\\:\x00-\x1f]"  # empty, '.' or '..' parts; scheme, backslash, control
# Values one by one, and which of them are absent; all others store a long path once for a million rows.
_ENCODINGS: Final = {"PLAIN", "RLE"}
_TYPES: Final = {"path": pa.string(), "bytes": pa.int64(), "sha256": pa.binary(32), "blocks": pa.int64(),
                 "rows": pa.int64()}  # fmt: skip
_SCHEMA: Final = pa.schema(list(_TYPES.items()))


def relative_path(path: str) -> str:
    """Return a relative POSIX path that stays inside its folder, else ValueError."""
    if re.search(_FORBIDDEN, path):
        raise ValueError(f"path {path!r} must be relative, without '..', scheme or backslash")
    return path


class Strict(BaseModel):
    """A part of a file: no unknown keys, and no conversions."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ShardFacts(Strict):
    """One shard file."""

    path: str
    bytes: int = Field(ge=0, lt=2**63)
    sha256: str
    blocks: int = Field(ge=0, lt=2**63)
    rows: int = Field(ge=0, lt=2**63)

    _path = field_validator("path")(relative_path)


class ShardTable(Sequence[ShardFacts]):
    """Shard metadata in columns; entries are made on demand. Before its file is read, only their count is known."""

    def __init__(self, sha256: str, count: int, table: pa.Table | None = None) -> None:
        self.sha256 = sha256
        self._count = count
        self._table = table

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> ShardFacts: ...
    @overload
    def __getitem__(self, index: slice) -> list[ShardFacts]: ...
    def __getitem__(self, index: int | slice) -> ShardFacts | list[ShardFacts]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._count))]
        values = {name: self.column(name)[index].as_py() for name in _SCHEMA.names}
        return ShardFacts.model_construct(**{**values, "sha256": values["sha256"].hex()})

    def __iter__(self) -> Iterator[ShardFacts]:
        return (self[number] for number in range(self._count))

    def digest(self) -> str:
        """Return SHA-256 (hex) of all shards' SHA-256, in order; it does not change with their paths."""
        hashes = self.column("sha256").combine_chunks()
        return hashlib.sha256(memoryview(hashes.buffers()[1])[: 32 * self._count]).hexdigest()

    def load(self, folder: Path) -> ShardTable:
        """Return the table with its file read; nothing is parsed before the hash agrees."""
        path = folder / SHARDS_FILE
        try:
            raw = read_regular(path, _ROW_LIMIT * self._count + _FOOTER)
        except OSError as error:
            raise ManifestError(
                f"{path}: the manifest names this list, but it cannot be read ({error}); {repair_of(path)}"
            ) from error
        digest = hashlib.sha256(raw).hexdigest()
        if digest != self.sha256:
            raise ManifestError(f"{path}: expected SHA-256 {self.sha256}, got {digest}; {repair_of(path)}")
        try:
            table = self._parse(raw)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ManifestError(f"{path}: not a list of {self._count} shards: {error}; {repair_of(path)}") from error
        pa.default_memory_pool().release_unused()  # decoding took the same amount again, which Arrow would keep
        return ShardTable(self.sha256, self._count, table)

    def _parse(self, raw: bytes) -> pa.Table:
        file = pq.ParquetFile(pa.BufferReader(raw))
        schema, facts = file.schema_arrow, file.metadata
        if schema.names != _SCHEMA.names or schema.types != _SCHEMA.types or facts.num_rows != self._count:
            raise ValueError(f"{facts.num_rows} rows with the columns {schema.names}, expected {_SCHEMA.names}")
        groups = [facts.row_group(number) for number in range(facts.num_row_groups)]
        size = sum(group.total_byte_size for group in groups)
        if size > _ROW_LIMIT * self._count:
            raise ValueError(f"{size} bytes after decompression, at most {_ROW_LIMIT} a shard are read")
        encodings = {name for group in groups for n in range(len(_TYPES)) for name in group.column(n).encodings}
        if not encodings <= _ENCODINGS or self._count > len(raw):  # hashes alone take 32 bytes a shard
            raise ValueError(f"{len(raw)} bytes with the encodings {sorted(encodings)}, expected values one by one")
        table = file.read(use_threads=False).combine_chunks()
        table.validate(full=True)
        if any(column.null_count for column in table.columns):
            raise ValueError("an entry is missing")
        if any(pc.any(pc.less(table[name], 0)).as_py() for name in ("bytes", "blocks", "rows")):
            raise ValueError("a count is below zero")
        if pc.any(pc.match_substring_regex(table["path"], _FORBIDDEN)).as_py():
            raise ValueError("a path is absolute, or leaves the folder")
        return table

    def column(self, name: str) -> Any:
        """Return an Arrow column; ManifestError before the file is read."""
        if self._table is None:
            raise ManifestError(f"{SHARDS_FILE} has not been read")
        return self._table.column(name)


def write_shards_file(path: Path, shards: Sequence[dict[str, Any]]) -> ShardTable:
    """Write the list of shards as Parquet."""
    columns = {name: [shard[name] for shard in shards] for name in _SCHEMA.names}
    columns["sha256"] = [bytes.fromhex(digest) for digest in columns["sha256"]]
    table = pa.table(columns, schema=_SCHEMA)
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    return ShardTable(hashlib.sha256(path.read_bytes()).hexdigest(), len(shards), table)


def to_shards(value: Any) -> Sequence[ShardFacts]:
    """Parse the manifest's key `shards`: a list of metadata, or the path of the list."""
    if isinstance(value, (tuple, ShardTable)):
        return value
    if isinstance(value, dict):
        position = _ListFile.model_validate(value)
        return ShardTable(position.sha256, position.count)
    return _LIST.validate_python(value)


class _ListFile(Strict):
    path: Literal["shards.parquet"]
    sha256: str
    count: int = Field(ge=1, lt=2**32)


_LIST: Final[TypeAdapter[tuple[ShardFacts, ...]]] = TypeAdapter(Annotated[tuple[ShardFacts, ...], FailFast()])


def plain_shards(shards: Sequence[ShardFacts]) -> Any:
    """Return the key `shards` as plain data."""
    if isinstance(shards, ShardTable):
        return {"path": SHARDS_FILE, "sha256": shards.sha256, "count": len(shards)}
    return [shard.model_dump(mode="json") for shard in shards]


def numbers_of(shards: Sequence[ShardFacts], name: str) -> NDArray[np.int64]:
    """`bytes`, `blocks` or `rows` of all shards."""
    if isinstance(shards, ShardTable):
        numbers: NDArray[np.int64] = shards.column(name).to_numpy()
        return numbers
    return np.array([getattr(shard, name) for shard in shards], np.int64)


def paths_of(shards: Sequence[ShardFacts]) -> list[str]:
    """Return paths of all shards."""
    if isinstance(shards, ShardTable):
        paths: list[str] = shards.column("path").to_pylist()
        return paths
    return [shard.path for shard in shards]
