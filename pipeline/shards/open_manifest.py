"""Open a shard set on disk or in a store, and check that manifest, index and files agree."""

import contextlib
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np

from clozeline.configuration.redaction import redact_text
from clozeline.errors import NewerFormatError
from clozeline.pipeline.shards.bounded_reading import read_regular
from clozeline.pipeline.shards.errors import ManifestError, ObjectMissingError, ObjectRefusedError
from clozeline.pipeline.shards.index import BlockIndex, read_index
from clozeline.pipeline.shards.manifest import SIZE_LIMIT, Manifest, manifest_path
from clozeline.pipeline.shards.quarantine import QUARANTINE, Quarantine, read_quarantine
from clozeline.pipeline.shards.reader import ShardSet
from clozeline.pipeline.shards.remote import BlockCache, RemoteBlocks, fetch_manifest_and_index
from clozeline.pipeline.shards.shard_table import numbers_of
from clozeline.pipeline.shards.store import RemoteStore, StoreOptions, as_url, local_path


def open_shards(
    path: Path | str,
    *,
    verify: Literal["block", "shard"] = "block",
    options: StoreOptions | None = None,
    check_files: bool = True,
) -> ShardSet:
    """Open a shard set by its `manifest.json` or its folder, on disk or in a store (a URL).

    With `verify="block"`, each block is checked when it is read; `"shard"` also compares every shard's SHA-256 now,
    which reads all of the set. `options` say how a store is read. Without `check_files`, no file of a shard is looked
    at: another process calls `ShardSet.check_files`, and this one compares the size of each file that it reads.

    Raises:
        TypeError: `path` is no path.
        StorageError: there is no manifest, or the store cannot be read.
        ManifestError: manifest, index and files contradict each other, or a file is missing.
        NewerFormatError: a newer version wrote the manifest, or the list of blocks in quarantine.
    """
    if not isinstance(path, (str, Path)):
        raise TypeError(f"open_shards: expected the path of a manifest or its folder, got {path!r}")
    url = as_url(path)
    shards = _open_files(local_path(path)) if url is None else _open_remote(url, options or StoreOptions())
    if check_files:
        shards.check_files()
    if verify == "shard":
        for shard in sorted(set(range(len(shards.manifest.shards))) - shards.optional_shards):
            shards.verify_shard(shard)
    return shards


def _open_files(path: Path) -> ShardSet:
    path = manifest_path(path)
    manifest = Manifest.load(path)
    index = read_index(
        path.parent / manifest.index.path, manifest.index.bytes, manifest.index.sha256, manifest.totals.blocks
    )
    _check_index(path, manifest, index)
    overlay = path.parent / QUARANTINE
    quarantine = Quarantine()
    if overlay.is_symlink() and not overlay.exists():
        raise ManifestError(
            f"{overlay}: a link to nothing, so that it is not known which blocks are in quarantine; bring back what it "
            "leads to, or remove the link, and put blocks there again with clozeline quarantine-blocks MANIFEST"
        )
    if overlay.exists():
        quarantine = read_quarantine(str(overlay), read_regular(overlay, SIZE_LIMIT), manifest)
    return ShardSet(path.absolute(), manifest, index, quarantine)


def _open_remote(url: str, options: StoreOptions) -> ShardSet:
    """Fetch manifest, index and quarantine once, then blocks on demand."""
    base = url.removesuffix("/manifest.json") if url.endswith("/manifest.json") else url.removesuffix("/")
    store = RemoteStore(base, options)
    path = Path(redact_text(base)) / "manifest.json"  # for messages only
    with tempfile.TemporaryDirectory(prefix="clozeline-") as folder:
        try:
            manifest, index = fetch_manifest_and_index(base, store, Path(folder))
            _check_index(Path(folder) / path.name, manifest, index)
        except (ManifestError, NewerFormatError) as error:
            raise type(error)(str(error).replace(folder, base)) from error
    quarantine = Quarantine()
    # who may not list a bucket is refused what is not there
    with contextlib.suppress(ObjectMissingError, ObjectRefusedError):
        overlay = store.read_whole(f"{base}/{QUARANTINE}", SIZE_LIMIT)
        quarantine = read_quarantine(f"{base}/{QUARANTINE}", overlay, manifest)
    cache = BlockCache(options.cache_dir, manifest.digest[:16]) if options.cache_dir else None
    return ShardSet(path, manifest, index, quarantine, RemoteBlocks(base, store, cache))


def _check_index(path: Path, manifest: Manifest, index: BlockIndex) -> None:
    """Check that the index describes exactly the files and rows that the manifest lists."""
    shards = manifest.shards
    if len(index) != manifest.totals.blocks or (len(index) and int(index.shard.max()) >= len(shards)):
        raise ManifestError(f"{path}: expected {manifest.totals.blocks} blocks in {len(shards)} shards, index differs")
    counts, rows, sizes = (numbers_of(shards, name) for name in ("blocks", "rows", "bytes"))
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
