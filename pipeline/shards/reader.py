"""Read shard sets: a block is a byte range, and its hash is verified before it is used."""

import errno
import hashlib
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

import numpy as np
import xxhash

from clozeline.configuration.redaction import redact_text
from clozeline.errors import StorageError
from clozeline.pipeline.block_options import StoreOptions
from clozeline.pipeline.rows import RowBatch, ShardRow
from clozeline.pipeline.shards.block import BlockError, ColumnSpec, DamagedBlock, decode, holds_ids
from clozeline.pipeline.shards.file_system import ObjectTooShortError
from clozeline.pipeline.shards.files import RemoteFiles, SetFiles
from clozeline.pipeline.shards.index import BlockIndex, parse_index
from clozeline.pipeline.shards.manifest import SIZE_LIMIT, Manifest, ManifestError, manifest_path
from clozeline.pipeline.shards.quarantine import QUARANTINE, Quarantine, read_quarantine
from clozeline.pipeline.shards.store import as_url, local_path
from clozeline.repair import rebuild_hint
from clozeline.report.html_page import fragment, table, tiles

# Errors of the process, not of the file: they must not count as a damaged block.
_PROCESS_ERRORS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_PIECE: Final = 64 << 20  # bytes of a shard that are hashed at once


def open_shards(
    path: Path | str,
    *,
    verify: Literal["block", "shard"] = "block",
    options: StoreOptions | None = None,
    check_files: bool = True,
) -> "ShardSet":
    """Open a shard set by its `manifest.json` or its folder, on disk or in a store (a URL).

    With `verify="block"`, each block is checked when it is read; `"shard"` also compares every
    shard's SHA-256 now, which reads all of the set. `options` say how a store is read. Without
    `check_files`, no file of a shard is looked at: another process calls `ShardSet.check_files`.

    Raises:
        TypeError: `path` is no path.
        StorageError: there is no manifest, or the store cannot be read.
        ManifestError: manifest, index and files contradict each other, or a file is missing.
        NewerFormatError: a newer version wrote the manifest, or the list of blocks in quarantine.
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
    name = manifest.index.path
    part = (0, manifest.index.bytes)
    expected = bytes.fromhex(manifest.index.sha256)
    if files.is_remote:
        raw = files.read_hashed(
            name, part, lambda content: hashlib.sha256(content).digest(), expected
        )
    else:
        raw = files.read_whole(name, manifest.index.bytes)
    index = parse_index(files.where(name), raw, manifest)
    overlay = files.read_optional(QUARANTINE, SIZE_LIMIT)
    quarantine = (
        Quarantine()
        if overlay is None
        else read_quarantine(files.where(QUARANTINE), overlay, manifest)
    )
    shards = ShardSet(path, manifest, index, files, quarantine)
    if check_files:
        shards.check_files()
    if verify == "shard":
        for shard in sorted(set(range(len(manifest.shards))) - shards.optional_shards):
            shards.verify_shard(shard)
    return shards


class ShardSet:
    """A shard set open for reading; `len` is its rows.

    Blocks are numbered over all shards, in (shard, block) order.

    `shards[3]` is a row, `shards[-1]` the last one, and a loop yields all rows block by block.
    Their arrays are read-only.
    """

    _last: tuple[int, RowBatch] | None = None
    """the block that `shards[i]` read last, and its rows"""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        index: BlockIndex,
        files: SetFiles,
        quarantine: Quarantine,
    ) -> None:
        self.path = path
        """The manifest; of a remote set, its place for messages."""
        self.quarantine = quarantine
        """Blocks that must not be read; the stream replaces them with filler rows."""
        self.manifest = manifest
        self.index = index
        self.columns: tuple[ColumnSpec, ...] = manifest.columns
        self._files = files
        self._id_columns = {spec.name for spec in self.columns if holds_ids(spec)}
        self._ends = np.cumsum(index.rows, dtype=np.int64)

    @property
    def quarantined(self) -> frozenset[int]:
        """Numbers of the blocks in quarantine, over all shards."""
        return self.quarantine.blocks

    def stats(self) -> dict[str, float]:
        """Return requests, retries and bytes fetched of a remote set; empty for files."""
        return self._files.stats()

    def release(self) -> None:
        """Close idle connections of a remote set; the set stays readable."""
        self._files.release()

    def __len__(self) -> int:
        return self.manifest.totals.samples

    def __getitem__(self, row: int) -> ShardRow:
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
            last = self._last = (block, self.read_block(block))
        return last[1].row(number)

    def __iter__(self) -> Iterator[ShardRow]:
        return (row for block in range(len(self.index)) for row in self.read_block(block))

    def __repr__(self) -> str:
        totals = self.manifest.totals
        names = ", ".join(spec.name for spec in self.columns)
        sizes = f"{totals.samples:,} rows, {totals.tokens:,} tokens"
        return f"ShardSet({self.manifest.name}: {sizes}; {names}; {self.path})"

    def _repr_html_(self) -> str:
        """Return the sizes and the columns of the set for a notebook."""
        manifest = self.manifest
        totals = self.manifest.totals
        sizes = {
            "rows": f"{totals.samples:,}",
            "tokens": f"{totals.tokens:,}",
            "shards": f"{totals.shards:,}",
            "bytes": f"{totals.bytes:,}",
            "token ids": f"{manifest.tokenizer.vocab_size:,}",
        }
        if manifest.objective is not None:
            sizes["objective"] = manifest.objective.label
        columns = table(
            ["column", "type", "meaning"],
            [(s.name, s.arrow_type, s.description) for s in self.columns],
        )
        return fragment(f"shard set {manifest.name}", [tiles(sizes), columns])

    @property
    def digest(self) -> str:
        return self.manifest.digest

    @property
    def is_remote(self) -> bool:
        """True if the files are in a store, which is the same for all machines."""
        return self._files.is_remote

    @cached_property
    def optional_shards(self) -> frozenset[int]:
        """Shards whose blocks are all in quarantine: their files may be missing."""
        counts = np.bincount(
            self.index.shard[sorted(self.quarantined)], minlength=len(self.manifest.shards)
        )
        shards = enumerate(self.manifest.shards)
        return frozenset(number for number, shard in shards if 0 < shard.blocks == counts[number])

    def check_files(self) -> None:
        """Compare the size of every file with the manifest, by one listing per folder; ManifestError where one differs.

        A million files are as many requests to a file system: of the ranks of a run, one on each
        machine asks.
        """
        shards = self.manifest.shards
        sizes = self._files.sizes({shard.path.rpartition("/")[0] for shard in shards}, len(shards))
        if sizes is None:
            return
        for number, shard in enumerate(shards):
            size = sizes.get(shard.path)
            where = self._files.where(shard.path)
            if size == shard.bytes or number in self.optional_shards:
                continue
            if size is None:
                message = "the manifest names this shard, but there is no such file"
                raise ManifestError(f"{where}: {message}: {rebuild_hint(where)}")
            raise ManifestError(
                f"{where}: expected {shard.bytes} bytes, got {size}; {rebuild_hint(where)}"
            )

    def shard_path(self, shard: int) -> Path:
        return self.path.parent / self.manifest.shards[shard].path

    def locate(self, row: int) -> tuple[int, int]:
        """Return the block of a row, and the row's number in that block; rows count in (shard, block, row) order."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of a set with {len(self)} rows")
        block = int(np.searchsorted(self._ends, row, side="right"))
        return block, row - int(self._ends[block]) + int(self.index.rows[block])

    def read_block(self, block: int, columns: Collection[str] | None = None) -> RowBatch:
        """Read the rows of a block, whose arrays are read-only.

        Args:
            block: number over all shards.
            columns: names of the columns to unpack; None: all. The hash always covers all of them.

        Raises:
            DamagedBlock: the bytes are not those that were written, or do not hold what the
                manifest says.
            StorageError: the store does not give them.
            OSError: this process has too many open files, or no memory.
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
            rows = decode(
                stored, self.columns, int(entry.rows[block]), self.manifest.max_block_bytes, columns
            )
            self._check_ids(rows)
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

    def _check_ids(self, rows: RowBatch) -> None:
        """Raise BlockError where a token id lies outside the vocabulary: it would be an index error in a model."""
        size = self.manifest.tokenizer.vocab_size
        for name in rows.columns.keys() & self._id_columns:
            values = rows.columns[name].values
            if (
                len(values)
                and np.iinfo(values.dtype).max >= size
                and (highest := int(values.max())) >= size
            ):
                raise BlockError(f"ids below the vocabulary's {size} in {name}", f"{highest}")

    def verify_shard(self, shard: int) -> None:
        """Compare a complete file or object with the manifest's SHA-256."""
        facts = self.manifest.shards[shard]
        digest = hashlib.sha256()
        for start in range(0, facts.bytes, _PIECE):
            digest.update(self._files.read(facts.path, (start, min(facts.bytes, start + _PIECE))))
        if (actual := digest.hexdigest()) != facts.sha256:
            where = self._files.where(facts.path)
            raise ManifestError(
                f"{where}: expected SHA-256 {facts.sha256}, got {actual}; {rebuild_hint(where)}"
            )
