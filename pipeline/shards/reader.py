"""Reading shard sets: a block is a byte range, and no byte of it is used before its hash agrees.

Files are read with `pread`, never mapped: a mapped file that is truncated kills the process, a short read is an
exception. Each read opens and closes its file, so a set holds no descriptors and may be used from any thread.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

import numpy as np
import xxhash

from pipeline.example import Rows
from pipeline.shards.block import BlockError, decode
from pipeline.shards.columns import ColumnSpec, holds_ids
from pipeline.shards.errors import CorruptBlock, ManifestError
from pipeline.shards.index import BlockIndex
from pipeline.shards.manifest import Manifest
from pipeline.shards.quarantine import Quarantine

__all__ = ["ShardSet"]


class BlockStore(Protocol):
    """Where blocks come from that are not in files of this machine."""

    def read(self, name: str, shard: int, block: int, offset: int, length: int) -> bytes:
        """The bytes of a block as stored, from a cache or from afar; `StorageError` if they cannot be had."""

    def forget(self, shard: int, block: int) -> None:
        """Do not give the same bytes of a block again: their hash was wrong."""

    def name(self, name: str) -> str:
        """What to call a shard in messages."""

    def stats(self) -> dict[str, float]:
        """Counters by name."""


class ShardSet:
    """A shard set open for reading; `len` is its rows. Blocks are numbered over all shards, in (shard, block) order."""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        index: BlockIndex,
        quarantine: Quarantine | None = None,
        store: BlockStore | None = None,
    ) -> None:
        self.path = path
        """The manifest; of a remote set, its copy on this machine."""
        self.quarantine = quarantine or Quarantine()
        """Blocks that must not be read; the stream puts filler rows in their places."""
        self._store = store
        self.manifest = manifest
        self.index = index
        self.columns: tuple[ColumnSpec, ...] = manifest.specs
        self._id_columns = {spec.name for spec in self.columns if holds_ids(spec)}
        self._longest = int(index.length.max()) if len(index) else 0
        self._ends = np.cumsum(index.rows, dtype=np.int64)

    @property
    def quarantined(self) -> frozenset[int]:
        """Numbers of the blocks in quarantine, over all shards."""
        return self.quarantine.blocks

    def stats(self) -> dict[str, float]:
        """Requests, retries and cache hits of a remote set; files count nothing."""
        return self._store.stats() if self._store is not None else {}

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
        stored = self._stored(shard, number, int(entry.offset[block]), int(entry.length[block]), buffer)
        digest = xxhash.xxh3_128_digest(stored)
        expected = entry.xxh3[block].tobytes()
        if digest != expected and self._store is not None:  # a bad cache entry, or a bad transfer: once more
            self._store.forget(shard, number)
            stored = self._stored(shard, number, int(entry.offset[block]), int(entry.length[block]), buffer)
            digest = xxhash.xxh3_128_digest(stored)
        path = self._name(shard)
        if digest != expected:
            if self._store is not None:
                self._store.forget(shard, number)
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

    def _name(self, shard: int) -> Path | str:
        """The shard's file or URL, for messages."""
        return self.shard_path(shard) if self._store is None else self._store.name(self.manifest.shards[shard].path)

    def _stored(
        self, shard: int, number: int, offset: int, length: int, buffer: bytearray | None
    ) -> memoryview | bytes:
        if self._store is not None:
            return self._store.read(self.manifest.shards[shard].path, shard, number, offset, length)
        memory = memoryview(bytearray(length) if buffer is None else buffer)[:length]
        return self._read(self.shard_path(shard), number, offset, memory)

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
