"""Read shard sets: a block is a byte range, and its hash is verified before it is used.

Files are read with `pread`, never mapped: a mapped file that is truncated kills the process, a short read is an
exception. Each read opens and closes its file, so a set holds no descriptors and may be used from any thread.
"""

import errno
import hashlib
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import xxhash

from clozeline.errors import StorageError
from clozeline.pipeline.rows import Row, Rows
from clozeline.pipeline.shards.block import BlockError, decode
from clozeline.pipeline.shards.columns import ColumnSpec, holds_ids
from clozeline.pipeline.shards.errors import DamagedBlock, ManifestError, ObjectTooShortError
from clozeline.pipeline.shards.index import BlockIndex
from clozeline.pipeline.shards.manifest import Manifest
from clozeline.pipeline.shards.quarantine import Quarantine
from clozeline.pipeline.shards.remote import RemoteBlocks
from clozeline.pipeline.shards.shard_files import compare_files, compare_size, list_folders, shard_folders
from clozeline.pipeline.shards.shard_table import numbers_of
from clozeline.pipeline.shards.store import LARGEST_REQUEST
from clozeline.repair import repair_of
from clozeline.report.html_page import facts, fragment, table

# Errors of the process, not of the file: they must not count as a damaged block.
_PROCESS_ERRORS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class ShardSet:
    """A shard set open for reading; `len` is its rows. Blocks are numbered over all shards, in (shard, block) order.

    `shards[3]` is a row, `shards[-1]` the last one, and a loop yields all rows block by block. Their arrays are
    read-only.
    """

    _last: tuple[int, Rows] | None = None
    """the block that `shards[i]` read last, and its rows"""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        index: BlockIndex,
        quarantine: Quarantine | None = None,
        store: RemoteBlocks | None = None,
    ) -> None:
        self.path = path
        """The manifest; of a remote set, its copy on this machine."""
        self.quarantine = quarantine or Quarantine()
        """Blocks that must not be read; the stream replaces them with filler rows."""
        self._store = store
        self.manifest = manifest
        self.index = index
        self.columns: tuple[ColumnSpec, ...] = manifest.specs
        self._id_columns = {spec.name for spec in self.columns if holds_ids(spec)}
        self._longest = int(index.length.max()) if len(index) else 0
        self._ends = np.cumsum(index.rows, dtype=np.int64)
        self._sized: set[int] | None = set()  # shards whose files have their size; None: all, by a listing

    @property
    def quarantined(self) -> frozenset[int]:
        """Numbers of the blocks in quarantine, over all shards."""
        return self.quarantine.blocks

    def stats(self) -> dict[str, float]:
        """Return requests, retries and cache hits of a remote set; empty for files."""
        return self._store.stats() if self._store is not None else {}

    def release(self) -> None:
        """Close idle connections of a remote set; the set stays readable."""
        if self._store is not None:
            self._store.close()

    def __len__(self) -> int:
        return self.manifest.totals.samples

    def __getitem__(self, row: int) -> Row:
        """Return one row, counted as `locate` does; a negative number counts from the end.

        Raises:
            TypeError: the index is no integer.
            IndexError: the set has no such row.
        """
        if isinstance(row, bool) or not isinstance(row, (int, np.integer)):
            raise TypeError(
                f"expected the number of a row, such as shards[3], got {row!r}; several rows are "
                "[shards[i] for i in range(10)], a block of rows is shards.read_block(0)"
            )
        block, number = self.locate(int(row) + len(self) if row < 0 else int(row))
        last = self._last
        if last is None or last[0] != block:
            last = self._last = (block, self._read_only(block))
        return last[1].row(number)

    def __iter__(self) -> Iterator[Row]:
        return (row for block in range(len(self.index)) for row in self._read_only(block))

    def __repr__(self) -> str:
        totals, names = self.manifest.totals, ", ".join(spec.name for spec in self.columns)
        sizes = f"{totals.samples:,} rows, {totals.tokens:,} tokens"
        return f"ShardSet({self.manifest.name}: {sizes}; {names}; {self.path})"

    def _repr_html_(self) -> str:
        """Return the sizes and the columns of the set for a notebook."""
        manifest, totals = self.manifest, self.manifest.totals
        sizes = {"rows": f"{totals.samples:,}", "tokens": f"{totals.tokens:,}", "shards": f"{totals.shards:,}",
                 "bytes": f"{totals.bytes:,}", "token ids": f"{manifest.tokenizer.vocab_size:,}"}  # fmt: skip
        if manifest.objective is not None:
            sizes["objective"] = manifest.objective.label
        columns = table(["column", "type", "meaning"], [(s.name, s.arrow_type, s.description) for s in self.columns])
        return fragment(f"shard set {manifest.name}", [facts(sizes), columns])

    @property
    def digest(self) -> str:
        return self.manifest.digest

    @property
    def is_remote(self) -> bool:
        """True if the files are in a store, which is the same for all machines."""
        return self._store is not None

    @cached_property
    def optional_shards(self) -> frozenset[int]:
        """Shards whose blocks are all in quarantine: their files may be missing."""
        if not self.quarantined:
            return frozenset()
        counts = np.bincount(self.index.shard[sorted(self.quarantined)], minlength=len(self.manifest.shards))
        complete = (counts > 0) & (counts == numbers_of(self.manifest.shards, "blocks"))
        return frozenset(np.flatnonzero(complete).tolist())

    def check_files(self) -> None:
        """Compare the size of every file with the manifest, by one listing per folder; ManifestError where one differs.

        A million files are as many requests to a file system: of the ranks of a run, one on each machine asks.
        """
        folders = shard_folders(self.manifest)
        if self._store is None:
            base, sizes = str(self.path.parent), list_folders(self.path.parent, folders)
            compare_files(base, self.manifest, sizes, self.optional_shards)
        elif (listed := self._store.sizes(folders, len(self.manifest.shards))) is not None:
            compare_files(self._store.name(), self.manifest, listed, self.optional_shards)
        self._sized = None

    def shard_path(self, shard: int) -> Path:
        return self.path.parent / self.manifest.shards[shard].path

    def locate(self, row: int) -> tuple[int, int]:
        """Return the block of a row, and the row's number in that block; rows count in (shard, block, row) order."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of a set with {len(self)} rows")
        block = int(np.searchsorted(self._ends, row, side="right"))
        return block, row - int(self._ends[block]) + int(self.index.rows[block])

    def buffer(self) -> bytearray:
        """Allocate memory for one block at a time, stored and unpacked."""
        compressed = self.manifest.compression.codec != "none"
        room = self.manifest.max_block_bytes + 64 * 5 * len(self.columns) if compressed else 0
        return bytearray(self._longest + room)

    def read_block(self, block: int, buffer: bytearray | None = None, columns: Collection[str] | None = None) -> Rows:
        """Read the rows of a block.

        Args:
            block: number over all shards.
            buffer: memory to read into, from `buffer()`; the rows may be views of it, so reuse it only after
                the rows are no longer needed. None: the rows have memory of their own.
            columns: names of the columns to unpack; None: all. The hash always covers all of them.

        Raises:
            DamagedBlock: the bytes are not those that were written, or do not hold what the manifest says.
            ManifestError: the file, which no listing has checked, has another size than in the manifest.
            StorageError: the store does not give them.
            OSError: this process has too many open files, or no memory.
        """
        stored = self._read_and_verify(block, buffer)
        try:
            scratch = None if buffer is None else memoryview(buffer)[self._longest :]
            rows = int(self.index.rows[block])
            decoded = decode(stored, self.columns, rows, self.manifest.max_block_bytes, columns, scratch)
            # token ids outside the vocabulary would be index errors in a model
            size = self.manifest.tokenizer.vocab_size
            for name in decoded.columns.keys() & self._id_columns:
                values = decoded.columns[name].values
                if len(values) and np.iinfo(values.dtype).max >= size and (highest := int(values.max())) >= size:
                    raise BlockError(f"ids below the vocabulary's {size} in {name}", f"{highest}")
        except BlockError as error:
            shard, number = int(self.index.shard[block]), int(self.index.block[block])
            raise DamagedBlock(self._name(shard), number, error.expected, error.got) from error
        return decoded

    def _read_only(self, block: int) -> Rows:
        """Read a block whose rows share its memory with later readers."""
        rows = self.read_block(block)
        for values in (*rows.fixed.values(), *(column.values for column in rows.columns.values())):
            values.flags.writeable = False
        return rows

    def verify_shard(self, shard: int) -> None:
        """Compare a complete file or object with the manifest's SHA-256."""
        facts, digest = self.manifest.shards[shard], hashlib.sha256()
        if self._store is None:
            with self.shard_path(shard).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256")
        else:
            for start in range(0, facts.bytes, LARGEST_REQUEST):
                stop = min(facts.bytes, start + LARGEST_REQUEST)
                digest.update(self._store.read_plain(facts.path, (start, stop)))
        if (actual := digest.hexdigest()) != facts.sha256:
            where = self._name(shard)
            raise ManifestError(f"{where}: expected SHA-256 {facts.sha256}, got {actual}; {repair_of(where)}")

    def _name(self, shard: int) -> Path | str:
        return self.shard_path(shard) if self._store is None else self._store.name(self.manifest.shards[shard].path)

    def _read_and_verify(self, block: int, buffer: bytearray | None) -> memoryview | bytes:
        """Read the stored bytes of a block and check their hash."""
        entry = self.index
        shard, number, offset = int(entry.shard[block]), int(entry.block[block]), int(entry.offset[block])
        length, expected = int(entry.length[block]), entry.xxh3[block].tobytes()
        stored: memoryview | bytes
        try:
            if self._store is None:
                stored = memoryview(bytearray(length) if buffer is None else buffer)[:length]
                self._read_file(shard, offset, stored)
            else:
                path, part = self.manifest.shards[shard].path, (offset, offset + length)
                stored = self._store.read(path, shard, number, part, expected)
        except (OSError, ObjectTooShortError) as error:
            if getattr(error, "errno", None) in _PROCESS_ERRORS:
                raise
            raise DamagedBlock(self._name(shard), number, f"{length} bytes at {offset}", str(error)) from error
        except StorageError as error:
            raise StorageError(f"{error} (block {number})") from error
        if (digest := xxhash.xxh3_128_digest(stored)) != expected:
            raise DamagedBlock(self._name(shard), number, f"xxh3-128 {expected.hex()}", digest.hex())
        return stored

    def _read_file(self, shard: int, offset: int, memory: memoryview) -> None:
        """Fill `memory` from an offset of a shard; the first read of a file that was not listed compares its size."""
        path = self.shard_path(shard)
        with _opened(path) as descriptor:
            if self._sized is not None and shard not in self._sized:
                compare_size(str(path), self.manifest.shards[shard].bytes, os.fstat(descriptor).st_size)
                self._sized.add(shard)
            _read_range(descriptor, offset, memory)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe would wait for its writer
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_range(descriptor: int, offset: int, memory: memoryview) -> None:
    """Fill `memory` from an offset of a file; OSError where the file is too short."""
    filled = 0
    while filled < len(memory):  # a network file system may give less than the file has
        got = os.preadv(descriptor, [memory[filled:]], offset + filled)
        if not got:
            raise OSError(f"{filled}: the file is truncated")
        filled += got
