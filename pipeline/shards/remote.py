"""Remote shard sets: cached blocks, and manifest and index that are fetched once per node."""

import hashlib
import json
import math
import os
import re
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Final

import xxhash

from clozeline.configuration.redaction import redact_text
from clozeline.pipeline.shards.block_cache import BlockCache
from clozeline.pipeline.shards.bounded_reading import check_entries
from clozeline.pipeline.shards.index import BlockIndex, read_index
from clozeline.pipeline.shards.manifest import ENTRY_LIMIT, SIZE_LIMIT, Manifest
from clozeline.pipeline.shards.shard_table import SHARDS_FILE
from clozeline.pipeline.shards.store import LARGEST_REQUEST, Range, RemoteStore, StoreOptions

_POLL_S: Final = 0.05
_SHA256: Final = re.compile("[0-9a-f]{64}")
_LIST_LIMIT: Final = 4 << 30  # 33 bytes a shard: a hundred million of them


class RemoteBlocks:
    """Blocks of one remote set, through a cache if there is one."""

    def __init__(self, store: RemoteStore, cache: BlockCache | None) -> None:
        self._store, self._cache = store, cache
        self._lock = threading.Lock()
        self._hits = self._misses = 0

    def read(self, name: str, shard: int, block: int, part: Range, xxh3: bytes) -> bytes:
        """Return the stored bytes of a block; fetched once more where their hash is not `xxh3`, then whatever it is."""
        if self._cache is not None:
            kept = self._cache.get(shard, block)
            intact = kept is not None and xxhash.xxh3_128_digest(kept) == xxh3
            with self._lock:
                self._hits += intact
                self._misses += not intact
            if kept is not None and intact:
                return kept
            if kept is not None:
                self._cache.drop(shard, block)
        content = self._store.read(name, part)
        if xxhash.xxh3_128_digest(content) != xxh3:  # a bad transfer: once more
            content = self._store.read(name, part)
        if self._cache is not None and xxhash.xxh3_128_digest(content) == xxh3:
            self._cache.put(shard, block, content)
        return content

    def read_plain(self, name: str, part: Range) -> bytes:
        return self._store.read(name, part)

    def sizes(self, folders: Collection[str], files: int) -> dict[str, dict[str, int]] | None:
        """List sizes in bytes by folder and name, with one request per thousand files; None if the store cannot."""
        listings = {folder: self._store.sizes(folder, files) for folder in folders}
        known = {folder: sizes for folder, sizes in listings.items() if sizes is not None}
        return known if len(known) == len(listings) else None

    def name(self, name: str = "") -> str:
        return redact_text(self._store.url(name) if name else self._store.base)

    def close(self) -> None:
        self._store.close()

    def stats(self) -> dict[str, float]:
        """Return requests, retries and bytes fetched; with a cache also its hits, misses and evictions."""
        store = self._store
        counters: dict[str, float] = {
            "requests": store.requests,
            "retries": store.retries,
            "fetched_bytes": store.bytes,
        }
        if self._cache is not None:
            counters |= {"cache_hits": self._hits, "cache_misses": self._misses, "cache_evicted": self._cache.evicted}
        return counters


def fetch_manifest_and_index(store: RemoteStore, folder: Path) -> tuple[Manifest, BlockIndex]:
    """Fetch manifest and index of a remote set through copies in `folder`, which are not needed afterwards.

    Every process fetches the manifest, so that a set that was rebuilt is noticed. With a cache, the index and the
    list of shards, which the manifest names by hash, are fetched once a node.
    """
    path = folder / "manifest.json"
    raw = store.read_whole(path.name, SIZE_LIMIT)
    check_entries(path, raw, ENTRY_LIMIT)
    path.write_bytes(raw)
    try:
        digest = str(json.loads(raw)["shards"]["sha256"])
    except (ValueError, TypeError, KeyError, RecursionError):
        pass  # the list of shards is in the manifest, or the manifest is malformed, which is refused below
    else:
        fetch = partial(store.read_whole, SHARDS_FILE, _LIST_LIMIT)
        (folder / SHARDS_FILE).write_bytes(_once_a_node(store.options, digest, fetch))
    manifest = Manifest.load(path)
    facts, copy = manifest.index, folder / "index.arrow"
    requests = max(1, math.ceil(facts.bytes / LARGEST_REQUEST))
    if requests == 1:  # asked for as a whole: some servers ignore a range that is all there is
        fetch = partial(store.read_whole, facts.path, facts.bytes)
    else:
        fetch = partial(store.read, facts.path, (0, facts.bytes))
    copy.write_bytes(_once_a_node(store.options, facts.sha256, fetch, requests))
    return manifest, read_index(copy, facts.bytes, facts.sha256, manifest.totals.blocks)


def _once_a_node(
    options: StoreOptions,
    sha256: str,
    fetch: Callable[[], bytes],
    requests: int = 1,
    pause: Callable[[float], None] = time.sleep,
) -> bytes:
    """Fetch through the cache: the first process of a node fetches, the others wait until the bytes are cached.

    They wait no longer than `requests` requests may take; then they fetch the bytes themselves.
    """
    if options.cache_dir is None or not _SHA256.fullmatch(sha256):  # a name of a file must not lead elsewhere
        return fetch()
    cache = BlockCache(options.cache_dir, "index", options.cache_bytes)
    position = (sha256[:16], "whole")
    first = os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0")) == "0"
    for _ in range(1 if first else math.ceil(requests * options.timeout_s / _POLL_S)):
        kept = cache.get(*position)
        if kept is not None and hashlib.sha256(kept).hexdigest() == sha256:
            return kept
        if not first:
            pause(_POLL_S)
    content = fetch()
    if hashlib.sha256(content).hexdigest() == sha256:
        cache.put(*position, content)
    return content
