"""Remote shard sets: manifest and index, and blocks by exact ranges, kept on a disk of the node if there is a cache.

One block is one request for its bytes, because a block is read by one lane of one rank: nothing is fetched twice in an
epoch, and ranks need no coordination.
"""

import contextlib
import hashlib
import json
import re
import shutil
import sys
import threading
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Final

import xxhash

from clozeline.configuration.redaction import redact_text
from clozeline.errors import message_text
from clozeline.files import replacing
from clozeline.pipeline.shards.bounded_reading import check_entries
from clozeline.pipeline.shards.index import BlockIndex, read_index
from clozeline.pipeline.shards.manifest import ENTRY_LIMIT, SIZE_LIMIT, Manifest
from clozeline.pipeline.shards.shard_table import SHARDS_FILE
from clozeline.pipeline.shards.store import Range, RemoteStore

_SHA256: Final = re.compile("[0-9a-f]{64}")
_LIST_LIMIT: Final = 4 << 30  # 33 bytes a shard: a hundred million of them
_KEPT_FREE: Final = 0.05  # share of a disk that a cache leaves free


class BlockCache:
    """Blocks on a disk of this node: one file each, renamed into its place, so that any process may write and read.

    Nothing is evicted: an epoch reads every block once, in its own order, so the block read last is no likelier to come
    soon than any other. Nothing is trusted: readers check the hash.
    """

    def __init__(self, folder: Path, set_name: str) -> None:
        self._folder, self._broken = folder.absolute() / "clozeline" / set_name, False

    def get(self, name: str) -> bytes | None:
        """Return the bytes that were put, or None."""
        with contextlib.suppress(OSError):
            return (self._folder / name).read_bytes()
        return None

    def put(self, name: str, content: bytes) -> None:
        """Store bytes while the disk has room; a disk that fails stops the caching, not the run."""
        path = self._folder / name
        try:
            if not self._broken:
                path.parent.mkdir(parents=True, exist_ok=True)
                disk = shutil.disk_usage(path.parent)
                if disk.free - len(content) > _KEPT_FREE * disk.total:
                    with replacing(path, durable=False) as part:
                        part.write_bytes(content)
        except OSError as error:
            self._broken = True
            sys.stderr.write(
                message_text(f"{self._folder}: blocks are no longer cached ({error}); reading continues\n")
            )


class RemoteBlocks:
    """Blocks of one remote set, through a cache if there is one."""

    def __init__(self, base: str, store: RemoteStore, cache: BlockCache | None) -> None:
        self._base, self._store, self._cache = base, store, cache
        self._lock = threading.Lock()
        self._hits = self._misses = 0

    def read(self, name: str, shard: int, block: int, part: Range, xxh3: bytes) -> bytes:
        """Return the stored bytes of a block; fetched once more where their hash is not `xxh3`, then whatever it is."""
        if self._cache is not None:
            kept = self._cache.get(f"{shard}/{block}")
            intact = kept is not None and xxhash.xxh3_128_digest(kept) == xxh3
            with self._lock:
                self._hits += intact
                self._misses += not intact
            if kept is not None and intact:
                return kept
        content = self.read_plain(name, part)
        if xxhash.xxh3_128_digest(content) != xxh3:  # a bad transfer: once more
            content = self.read_plain(name, part)
        if self._cache is not None and xxhash.xxh3_128_digest(content) == xxh3:
            self._cache.put(f"{shard}/{block}", content)
        return content

    def read_plain(self, name: str, part: Range) -> bytes:
        return self._store.read(f"{self._base}/{name}", part)

    def sizes(self, folders: Collection[str], files: int) -> dict[str, dict[str, int]] | None:
        """List sizes in bytes by folder and name, with one request per thousand files; None if the store cannot."""
        urls = {folder: f"{self._base}/{folder}" if folder else self._base for folder in folders}
        listings = {folder: self._store.sizes(url, files) for folder, url in urls.items()}
        known = {folder: sizes for folder, sizes in listings.items() if sizes is not None}
        return known if len(known) == len(listings) else None

    def name(self, name: str = "") -> str:
        return redact_text(f"{self._base}/{name}" if name else self._base)

    def close(self) -> None:
        self._store.close()

    def stats(self) -> dict[str, float]:
        """Return requests, retries and bytes fetched; with a cache also its hits and misses."""
        store = self._store
        counters: dict[str, float] = {
            "requests": store.requests,
            "retries": store.retries,
            "fetched_bytes": store.bytes,
        }
        if self._cache is not None:
            counters |= {"cache_hits": self._hits, "cache_misses": self._misses}
        return counters


def fetch_manifest_and_index(base: str, store: RemoteStore, folder: Path) -> tuple[Manifest, BlockIndex]:
    """Fetch manifest and index of a remote set through copies in `folder`, which are not needed afterwards.

    Every process fetches the manifest, so that a set that was rebuilt is noticed. The index, and the list of shards,
    which the manifest names by hash, are taken from the cache.
    """
    path = folder / "manifest.json"
    raw = store.read_whole(f"{base}/{path.name}", SIZE_LIMIT)
    check_entries(path, raw, ENTRY_LIMIT)
    path.write_bytes(raw)
    cache = None if store.options.cache_dir is None else BlockCache(store.options.cache_dir, "index")
    try:
        digest = str(json.loads(raw)["shards"]["sha256"])
    except (ValueError, TypeError, KeyError, RecursionError):
        pass  # the list of shards is in the manifest, or the manifest is malformed, which is refused below
    else:
        fetch = partial(store.read_whole, f"{base}/{SHARDS_FILE}", _LIST_LIMIT)
        (folder / SHARDS_FILE).write_bytes(_through_cache(cache, digest, fetch))
    manifest = Manifest.load(path)
    facts, copy = manifest.index, folder / "index.arrow"
    fetch = partial(store.read, f"{base}/{facts.path}", (0, facts.bytes))
    copy.write_bytes(_through_cache(cache, facts.sha256, fetch))
    return manifest, read_index(copy, facts.bytes, facts.sha256, manifest.totals.blocks)


def _through_cache(cache: BlockCache | None, sha256: str, fetch: Callable[[], bytes]) -> bytes:
    if cache is None or not _SHA256.fullmatch(sha256):  # a name of a file must not lead elsewhere
        return fetch()
    kept = cache.get(sha256)
    if kept is not None and hashlib.sha256(kept).hexdigest() == sha256:
        return kept
    content = fetch()
    if hashlib.sha256(content).hexdigest() == sha256:
        cache.put(sha256, content)
    return content
