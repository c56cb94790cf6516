"""Opening a shard set, here or in a store, and the checks that its manifest, index and files agree."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Literal

import numpy as np

from pipeline.shards.block_cache import BlockCache
from pipeline.shards.errors import ManifestError
from pipeline.shards.index import BlockIndex, read_index
from pipeline.shards.manifest import SIZE_LIMIT, Manifest, manifest_path
from pipeline.shards.quarantine import QUARANTINE, Quarantine, read_quarantine
from pipeline.shards.reader import ShardSet
from pipeline.shards.shard_table import SHARDS_FILE, numbers_of, paths_of
from pipeline.shards.store import ObjectMissingError, RemoteStore, StoreOptions, as_url

__all__ = ["open_shards"]


def open_shards(
    path: Path | str, *, verify: Literal["block", "shard"] = "block", options: StoreOptions | None = None
) -> ShardSet:
    """Open a shard set by its `manifest.json` or the folder of it, on a disk or in a store (a URL).

    Args:
        path: manifest or folder.
        verify: `block` checks each block when it is read; `shard` also compares every file's SHA-256 now.
        options: how a store is read; files need none.

    Raises:
        StorageError: there is no manifest, or the store cannot be read.
        ManifestError: manifest, index and files contradict each other, or a file is missing.
    """
    url = as_url(path)
    if url is not None:
        return _open_remote(url, options or StoreOptions())
    path = manifest_path(path)
    manifest = Manifest.load(path)
    index = read_index(
        path.parent / manifest.index.path, manifest.index.bytes, manifest.index.sha256, manifest.totals.blocks
    )
    _check_index(path, manifest, index)
    overlay = path.parent / QUARANTINE
    quarantine = Quarantine()
    if overlay.exists():
        quarantine = read_quarantine(str(overlay), overlay.read_bytes(), manifest, index)
    folders = _folders(manifest)
    sizes = {folder: _listing(path.parent / folder) for folder in folders}
    _check_files(str(path.parent), manifest, sizes, _unneeded(manifest, index, quarantine))
    shards = ShardSet(path, manifest, index, quarantine)
    if verify == "shard":
        for shard in range(len(manifest.shards)):
            shards.verify_shard(shard)
    return shards


class _RemoteBlocks:
    """Blocks of one remote set, through a cache if there is one."""

    def __init__(self, store: RemoteStore, cache: BlockCache | None) -> None:
        self._store, self._cache = store, cache

    def read(self, name: str, shard: int, block: int, offset: int, length: int) -> bytes:
        kept = self._cache.get(shard, block) if self._cache else None
        if kept is not None and len(kept) == length:
            return kept
        found = self._store.read(name, (offset, offset + length))
        if self._cache:
            self._cache.put(shard, block, found)
        return found

    def forget(self, shard: int, block: int) -> None:
        if self._cache:
            self._cache.drop(shard, block)

    def name(self, name: str) -> str:
        return self._store.url(name)

    def stats(self) -> dict[str, float]:
        store, cache = self._store, self._cache
        found: dict[str, float] = {"requests": store.requests, "retries": store.retries, "fetched_bytes": store.bytes}
        if cache:
            found |= {"cache_hits": cache.hits, "cache_misses": cache.misses, "cache_evicted": cache.evicted}
        return found


def _open_remote(url: str, options: StoreOptions) -> ShardSet:
    """Fetch manifest, index and quarantine once, then blocks as they are wanted."""
    base = url.removesuffix("/manifest.json").rstrip("/")
    store = RemoteStore(base, options)
    folder = Path(tempfile.mkdtemp(prefix="clozeline-"))
    try:
        shards = _with_copies(store, folder, options)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(shards, shutil.rmtree, folder, ignore_errors=True)
    return shards


def _with_copies(store: RemoteStore, folder: Path, options: StoreOptions) -> ShardSet:
    raw = store.read("manifest.json")
    if len(raw) > SIZE_LIMIT:
        raise ManifestError(f"{store.url('manifest.json')}: {len(raw)} bytes, a manifest has at most {SIZE_LIMIT}")
    path = folder / "manifest.json"
    path.write_bytes(raw)
    if isinstance(json.loads(raw).get("shards"), dict):
        (folder / SHARDS_FILE).write_bytes(store.read(SHARDS_FILE))
    manifest = Manifest.load(path)
    index_path = folder / "index.arrow"
    index_path.write_bytes(store.read(manifest.index.path))
    index = read_index(index_path, manifest.index.bytes, manifest.index.sha256, manifest.totals.blocks)
    _check_index(path, manifest, index)
    quarantine = Quarantine()
    with contextlib.suppress(ObjectMissingError):
        overlay = store.read(QUARANTINE)
        quarantine = read_quarantine(store.url(QUARANTINE), overlay, manifest, index)
    sizes = {parent: store.sizes(parent) for parent in _folders(manifest)}
    known = {parent: found for parent, found in sizes.items() if found is not None}
    if len(known) == len(sizes):
        _check_files(store.base, manifest, known, _unneeded(manifest, index, quarantine))
    cache = BlockCache(options.cache_dir, manifest.digest[:16], options.cache_bytes) if options.cache_dir else None
    return ShardSet(path, manifest, index, quarantine, _RemoteBlocks(store, cache))


def _unneeded(manifest: Manifest, index: BlockIndex, quarantine: Quarantine) -> set[int]:
    """Shards of which every block is in quarantine: they may be missing."""
    if not quarantine.blocks:
        return set()
    counts = np.bincount(index.shard[sorted(quarantine.blocks)], minlength=len(manifest.shards))
    return {number for number, shard in enumerate(manifest.shards) if counts[number] == shard.blocks}


def _check_index(path: Path, manifest: Manifest, index: BlockIndex) -> None:
    """The index must describe exactly the files and rows that the manifest lists."""
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


def _check_files(base: str, manifest: Manifest, listings: dict[str, dict[str, int]], unneeded: set[int]) -> None:
    """Every shard must be there with its size; one listing a folder, whatever the number of files."""
    sizes = numbers_of(manifest.shards, "bytes").tolist()
    for number, (path, size) in enumerate(zip(paths_of(manifest.shards), sizes, strict=True)):
        if number in unneeded:
            continue
        parent, _, name = path.rpartition("/")
        found = listings[parent].get(name)
        if found is None:
            raise ManifestError(f"{base}/{path}: the manifest names this shard, but there is no such file")
        if found != size:
            raise ManifestError(f"{base}/{path}: expected {size} bytes, got {found}; copy it again")


def _folders(manifest: Manifest) -> set[str]:
    return {path.rpartition("/")[0] for path in paths_of(manifest.shards)}


def _listing(folder: Path) -> dict[str, int]:
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as entries:
        return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
