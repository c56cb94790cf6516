"""Read shard sets block by block; the hash of a block is verified before it is used."""

import errno
import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from clozeline.configuration.paths import as_url, local_path
from clozeline.configuration.redaction import redact_text
from clozeline.errors import StorageError
from clozeline.pipeline.block_options import StoreOptions
from clozeline.pipeline.rows import RowBatch, ShardRow
from clozeline.pipeline.shards.block import BlockError, ColumnSpec, DamagedBlock, decode
from clozeline.pipeline.shards.file_system import ObjectTooShortError
from clozeline.pipeline.shards.files import RemoteFiles, SetFiles
from clozeline.pipeline.shards.index import BlockIndex, parse_index
from clozeline.pipeline.shards.manifest import (
    SIZE_LIMIT,
    Manifest,
    ManifestError,
    SetFileRecord,
    manifest_path,
)
from clozeline.pipeline.shards.row_rules import check_rows, find_bounds
from clozeline.pipeline.shards.set_table import set_table
from clozeline.pipeline.shards.tables import parse_token_counts
from clozeline.repair import rebuild_hint
from clozeline.report.html_page import Viewed
from clozeline.report.views import Section, Table

# Errors of the process, not of the file; they do not mean that a block is damaged.
_PROCESS_ERRORS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_HASHED_BYTES: Final = 64 << 20  # bytes of a shard that are hashed at once


def open_shards(
    path: Path | str,
    *,
    verify: Literal["block", "shard"] = "block",
    options: StoreOptions | None = None,
    check_files: bool = True,
) -> "ShardSet":
    """Open a shard set by its `manifest.json` or its folder, on disk or in a store (a URL).

    With `verify="block"`, each block is checked when it is read. With `"shard"`, the SHA-256 of
    every shard is compared now, which reads the entire set. `options` configure how a store is
    read. Without `check_files`, the sizes of the shard files are not compared: call
    `ShardSet.check_files` later, for example in one process per machine.

    Raises:
        TypeError: `path` is not a path.
        StorageError: there is no manifest, or the store cannot be read.
        ManifestError: manifest, index and files contradict each other, or a file is missing.
        NewerFormatError: a newer version wrote the manifest.
    """
    if not isinstance(path, (str, Path)):
        raise TypeError(f"open_shards: expected the path of a manifest or its folder, got {path!r}")

    if (url := as_url(path)) is None:
        manifest = Manifest.load(local_path(path))
        path = manifest_path(local_path(path)).absolute()
        files = SetFiles(str(path.parent))
    else:
        base = url.removesuffix("/manifest.json").removesuffix("/")
        files = RemoteFiles(base, options or StoreOptions())
        path = Path(redact_text(base)) / "manifest.json"
        manifest = Manifest.parse(files.where(path.name), files.read_whole(path.name, SIZE_LIMIT))

    raw = _read_recorded(files, manifest.index)
    index = parse_index(files.where(manifest.index.path), raw, manifest)
    shards = ShardSet(path, manifest, index, files)
    if check_files:
        shards.check_files()
    if verify == "shard":
        for shard in range(len(manifest.shards)):
            shards.verify_shard(shard)

    return shards


def _read_recorded(files: SetFiles, record: SetFileRecord) -> bytes | memoryview:
    """Return the content of a file next to the shards; ManifestError if it has changed."""
    where = files.where(record.path)
    if files.is_remote:
        part = (0, record.bytes)
        raw = files.read_hashed(record.path, part, _sha256, bytes.fromhex(record.sha256))
    else:
        raw = files.read_whole(record.path, record.bytes)
    if (digest := _sha256(raw).hex()) != record.sha256:
        raise ManifestError(
            f"{where}: expected SHA-256 {record.sha256}, got {digest}; {rebuild_hint(where)}"
        )
    return raw


def _sha256(content: bytes | memoryview) -> bytes:
    return hashlib.sha256(content).digest()


class ShardSet(Viewed):
    """A shard set that is open for reading; `len` is the number of its rows.

    Blocks are numbered over all shards, in (shard, block) order.

    `shards[3]` is a row, `shards[-1]` the last one, and a loop yields all rows, block by block.
    Arrays are read-only.
    """

    _last: tuple[int, RowBatch] | None = None
    """the block that `shards[i]` read last, with its rows"""

    def __init__(self, path: Path, manifest: Manifest, index: BlockIndex, files: SetFiles) -> None:
        self.path = path
        """Path of the manifest; for a remote set, its name in messages."""
        self.manifest = manifest
        self.index = index
        self.columns: tuple[ColumnSpec, ...] = manifest.columns
        self._files = files
        self._ends = np.cumsum(index.rows, dtype=np.int64)

    @cached_property
    def bounds(self) -> dict[int | str, int]:
        """Size of each list that the role of a column may name in `below`."""
        return find_bounds(self.manifest)

    def stats(self) -> dict[str, float]:
        """Return requests, retries and fetched bytes of a remote set; empty for local files."""
        return self._files.stats()

    def release(self) -> None:
        """Close idle connections of a remote set; the set stays readable."""
        self._files.release()

    def __len__(self) -> int:
        return self.manifest.totals.samples

    def __getitem__(self, row: int) -> ShardRow:
        """Return one row by its index over all shards; negative indices count from the end.

        Raises:
            TypeError: the index is not an integer.
            IndexError: the set has no such row.
        """
        if isinstance(row, bool) or not isinstance(row, (int, np.integer)):
            raise TypeError(
                f"expected the index of a row, such as shards[3], got {row!r}; for several rows, "
                "write [shards[i] for i in range(10)]; for a block, shards.read_block(0)"
            )
        block, number = self.locate(int(row) + len(self) if row < 0 else int(row))
        last = self._last
        if last is None or last[0] != block:
            last = self._last = (block, self.read_block(block))
        return last[1].row(number)

    def __iter__(self) -> Iterator[ShardRow]:
        return (row for block in range(len(self.index)) for row in self.read_block(block))

    def __repr__(self) -> str:
        totals = self.manifest.totals
        names = ", ".join(spec.name for spec in self.columns)
        sizes = f"{totals.samples:,} rows, {totals.tokens:,} tokens"
        return f"ShardSet({self.manifest.name}: {sizes}; {names}; {self.path})"

    def view(self) -> Section:
        """Return sizes and columns of the set."""
        rows = [(each.name, each.arrow_type, each.description) for each in self.columns]
        columns = Table("", ("column", "type", "meaning"), rows)
        return Section(f"shard set {self.manifest.name}", [set_table(self.manifest), columns])

    @property
    def digest(self) -> str:
        return self.manifest.digest

    @property
    def is_remote(self) -> bool:
        """True if the files are in a store, which all machines share."""
        return self._files.is_remote

    def token_counts(self) -> NDArray[np.uint64] | None:
        """Return how often each id occurs in the corpus, [vocabulary size]; None: unknown.

        Raises:
            ManifestError: the file of the counts is missing or has changed.
        """
        record = self.manifest.token_counts
        return None if record is None else parse_token_counts(_read_recorded(self._files, record))

    def check_files(self) -> None:
        """Compare the size of every file with the manifest; ManifestError if one differs.

        It takes one listing per folder. A million files are as many requests to a file system, so
        only one rank per machine calls it.
        """
        shards = self.manifest.shards
        sizes = self._files.sizes({shard.path.rpartition("/")[0] for shard in shards}, len(shards))
        if sizes is None:
            return
        for shard in shards:
            size = sizes.get(shard.path)
            where = self._files.where(shard.path)
            if size == shard.bytes:
                continue
            if size is None:
                message = "the manifest names this shard, but the file is missing"
                raise ManifestError(f"{where}: {message}: {rebuild_hint(where)}")
            raise ManifestError(
                f"{where}: expected {shard.bytes} bytes, got {size}; {rebuild_hint(where)}"
            )

    def shard_path(self, shard: int) -> Path:
        return self.path.parent / self.manifest.shards[shard].path

    def locate(self, row: int) -> tuple[int, int]:
        """Return the block of a row, and the row's index in that block.

        Rows are counted in (shard, block, row) order.
        """
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} is out of range: the set has {len(self)} rows")
        block = int(np.searchsorted(self._ends, row, side="right"))
        return block, row - int(self._ends[block]) + int(self.index.rows[block])

    def read_block(self, block: int, columns: Collection[str] | None = None) -> RowBatch:
        """Return the rows of a block; their arrays are read-only.

        Args:
            block: index over all shards.
            columns: names of the columns to decode, which are also checked by their roles; None:
                all. The hash always covers all columns.

        Raises:
            DamagedBlock: the bytes have changed since they were written, contradict the manifest,
            or hold a row that breaks a rule of its columns.
            StorageError: the store cannot be read.
            OSError: this process has too many open files or no memory.
        """
        entry = self.index
        shard = int(entry.shard[block])
        number = int(entry.block[block])
        offset = int(entry.offset[block])
        name = self.manifest.shards[shard].path
        length = int(entry.length[block])
        expected = entry.xxh3[block].tobytes()

        try:
            part = (offset, offset + length)
            stored = self._files.read_hashed(name, part, xxhash.xxh3_128_digest, expected)
            if (digest := xxhash.xxh3_128_digest(stored)) != expected:
                raise BlockError(f"xxh3-128 {expected.hex()}", digest.hex())
            wanted = None if columns is None else {*columns, "part"}
            rows = decode(
                stored, self.columns, int(entry.rows[block]), self.manifest.max_block_bytes, wanted
            )
            check_rows(rows, self.manifest, self.bounds)
        except BlockError as error:
            raise DamagedBlock(
                self._files.where(name), number, error.expected, error.got
            ) from error
        except (OSError, ObjectTooShortError) as error:
            if getattr(error, "errno", None) in _PROCESS_ERRORS:
                raise
            where = self._files.where(name)
            raise DamagedBlock(where, number, f"{length} bytes at {offset}", str(error)) from error
        except StorageError as error:
            raise StorageError(f"{error} (block {number})") from error

        return rows

    def read_ahead(self, blocks: Sequence[int]) -> Self:
        """Return this set with blocks in memory, if it is in a store: one request reads them.

        The blocks follow one another in a shard. If the request fails, `read_block` reads each of
        them, so that its error names the block.
        """
        first = blocks[0]
        last = blocks[-1]
        name = self.manifest.shards[int(self.index.shard[first])].path
        stop = int(self.index.offset[last]) + int(self.index.length[last])
        ahead = copy(self)
        with suppress(StorageError):
            ahead._files = self._files.fetch(name, (int(self.index.offset[first]), stop))
        return ahead

    def verify_shard(self, shard: int) -> None:
        """Compare the SHA-256 of a shard file or object with the manifest."""
        record = self.manifest.shards[shard]
        digest = hashlib.sha256()
        for start in range(0, record.bytes, _HASHED_BYTES):
            end = min(record.bytes, start + _HASHED_BYTES)
            digest.update(self._files.read(record.path, (start, end)))
        if (actual := digest.hexdigest()) != record.sha256:
            where = self._files.where(record.path)
            raise ManifestError(
                f"{where}: expected SHA-256 {record.sha256}, got {actual}; {rebuild_hint(where)}"
            )
