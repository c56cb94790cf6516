"""Reading shard sets: a block is a byte range, and no byte of it is used before its hash agrees.

Files are read with `pread`, never mapped: a mapped file that is truncated kills the process, a short read is an
exception. Each read opens and closes its file, so a set holds no descriptors and may be used from any thread.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import Literal

import numpy as np
import xxhash

from pipeline.example import Rows
from pipeline.shards.block import BlockError, decode
from pipeline.shards.columns import ColumnSpec, holds_ids
from pipeline.shards.errors import CorruptBlock, ManifestError
from pipeline.shards.index import BlockIndex, read_index
from pipeline.shards.manifest import Manifest, manifest_path

__all__ = ["ShardSet", "open_shards"]


def open_shards(path: Path | str, *, verify: Literal["block", "shard"] = "block") -> ShardSet:
    """Open a shard set by its `manifest.json` or the folder of it.

    Args:
        path: manifest or folder.
        verify: `block` checks each block when it is read; `shard` also compares every file's SHA-256 now.

    Raises:
        StorageError: there is no manifest.
        ManifestError: manifest, index and files contradict each other, or a file is missing.
    """
    path = manifest_path(path)
    manifest = Manifest.load(path)
    index = read_index(path.parent / manifest.index.path, manifest.index.bytes, manifest.index.sha256)
    _check_index(path, manifest, index)
    _check_files(path.parent, manifest)
    shards = ShardSet(path, manifest, index)
    if verify == "shard":
        for shard in range(len(manifest.shards)):
            shards.verify_shard(shard)
    return shards


class ShardSet:
    """A shard set open for reading; `len` is its rows. Blocks are numbered over all shards, in (shard, block) order."""

    def __init__(self, path: Path, manifest: Manifest, index: BlockIndex) -> None:
        self.path = path
        self.manifest = manifest
        self.index = index
        self.columns: tuple[ColumnSpec, ...] = manifest.specs
        self._id_columns = {spec.name for spec in self.columns if holds_ids(spec)}
        self._longest = int(index.length.max()) if len(index) else 0
        self._ends = np.cumsum(index.rows, dtype=np.int64)

    quarantined: frozenset[int] = frozenset()
    """Blocks that must not be read."""

    def stats(self) -> dict[str, float]:
        """Counters of a store; files have none."""
        return {}

    def __len__(self) -> int:
        return self.manifest.totals.samples

    @property
    def digest(self) -> str:
        """The dataset digest of the manifest."""
        return self.manifest.digest

    def shard_path(self, shard: int) -> Path:
        """File of a shard."""
        return self.path.parent / self.manifest.shards[shard].path

    def locate(self, row: int) -> tuple[int, int]:
        """Block that holds a row, and the row's place in it; rows are counted in (shard, block, row) order."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of a set with {len(self)} rows")
        block = int(np.searchsorted(self._ends, row, side="right"))
        return block, row - int(self._ends[block]) + int(self.index.rows[block])

    def buffer(self) -> bytearray:
        """Memory for one block at a time, stored and unpacked."""
        compressed = self.manifest.compression.codec != "none"
        room = self.manifest.max_block_bytes + 64 * 5 * len(self.columns) if compressed else 0
        return bytearray(self._longest + room)

    def read_block(self, block: int, buffer: bytearray | None = None, columns: Collection[str] | None = None) -> Rows:
        """Rows of a block.

        Args:
            block: number over all shards.
            buffer: memory to read into, from `buffer()`; the rows may be views of it, so it must not be used again
                before they are done with. None: the rows have memory of their own.
            columns: names of the columns to unpack; None: all. The hash always covers all of them.

        Raises:
            CorruptBlock: the bytes are not those that were written, or do not hold what the manifest says.
        """
        entry = self.index
        shard, number, rows = int(entry.shard[block]), int(entry.block[block]), int(entry.rows[block])
        path = self.shard_path(shard)
        length = int(entry.length[block])
        memory = memoryview(bytearray(length) if buffer is None else buffer)[:length]
        stored = self._read(path, number, int(entry.offset[block]), memory)
        digest = xxhash.xxh3_128_digest(stored)
        expected = entry.xxh3[block].tobytes()
        if digest != expected:
            raise CorruptBlock(path, number, f"xxh3-128 {expected.hex()}", digest.hex())
        try:
            scratch = None if buffer is None else memoryview(buffer)[self._longest :]
            decoded = decode(stored, self.columns, rows, self.manifest.max_block_bytes, columns, scratch)
            self._check_ids(decoded)
        except BlockError as error:
            raise CorruptBlock(path, number, error.expected, error.got) from error
        return decoded

    def verify_shard(self, shard: int) -> None:
        """Compare a whole file with the manifest's SHA-256; `ManifestError` where they differ."""
        path, expected = self.shard_path(shard), self.manifest.shards[shard].sha256
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != expected:
            raise ManifestError(f"{path}: expected SHA-256 {expected}, got {digest}; copy the file again")

    @staticmethod
    def _read(path: Path, number: int, offset: int, memory: memoryview) -> memoryview:
        try:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                length = os.preadv(descriptor, [memory], offset)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise CorruptBlock(path, number, f"{len(memory)} readable bytes at {offset}", f"{error}") from error
        if length != len(memory):
            raise CorruptBlock(path, number, f"{len(memory)} bytes at {offset}", f"{length}: the file is truncated")
        return memory

    def _check_ids(self, rows: Rows) -> None:
        """Every token id must exist; one pass a block, much cheaper than an index error inside a model."""
        size = self.manifest.tokenizer.vocab_size
        for name in rows.columns.keys() & self._id_columns:
            values = rows.columns[name].values
            if len(values) and np.iinfo(values.dtype).max >= size and (most := int(values.max())) >= size:
                raise BlockError(f"ids below the vocabulary's {size} in {name}", f"{most}")


def _check_index(path: Path, manifest: Manifest, index: BlockIndex) -> None:
    """The index must describe exactly the files and rows that the manifest lists."""
    shards = manifest.shards
    if len(index) != manifest.totals.blocks or (len(index) and int(index.shard.max()) >= len(shards)):
        raise ManifestError(f"{path}: expected {manifest.totals.blocks} blocks in {len(shards)} shards, index differs")
    counts = np.array([shard.blocks for shard in shards], np.int64)
    rows = np.array([shard.rows for shard in shards], np.int64)
    sizes = np.array([shard.bytes for shard in shards], np.int64)
    ordered = np.repeat(np.arange(len(shards)), counts)
    numbers = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
    if (index.shard != ordered).any() or (index.block != numbers).any():
        raise ManifestError(f"{path}: the index does not list the shards' blocks in order")
    full = np.zeros(len(index), np.bool_)  # all but the last block of each shard
    full[:-1] = index.shard[:-1] == index.shard[1:]
    wrong = (index.rows < 1) | (index.rows > manifest.block_rows) | (full & (index.rows != manifest.block_rows))
    if wrong.any():
        raise ManifestError(
            f"{path}: block {int(np.flatnonzero(wrong)[0])} of the index is not {manifest.block_rows} rows"
        )
    if (np.bincount(index.shard, index.rows, len(shards)) != rows).any():
        raise ManifestError(f"{path}: the index and the manifest count different rows in a shard")
    ends = index.offset.astype(np.float64) + index.length
    if (ends > sizes[ordered]).any() or (index.length < 1).any():
        raise ManifestError(f"{path}: a block of the index lies outside its shard")


def _check_files(folder: Path, manifest: Manifest) -> None:
    """Every shard must be there with its size; one listing a folder, whatever the number of files."""
    sizes: dict[str, dict[str, int]] = {}
    for shard in manifest.shards:
        parent, _, name = shard.path.rpartition("/")
        if parent not in sizes:
            sizes[parent] = _listing(folder / parent)
        found = sizes[parent].get(name)
        if found is None:
            raise ManifestError(f"{folder / shard.path}: the manifest names this shard, but there is no such file")
        if found != shard.bytes:
            raise ManifestError(f"{folder / shard.path}: expected {shard.bytes} bytes, got {found}; copy it again")


def _listing(folder: Path) -> dict[str, int]:
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as entries:
        return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
