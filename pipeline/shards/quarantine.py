"""`quarantine.json`: blocks that must not be read any more, beside a manifest; it changes neither digest nor order."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np

from pipeline.shards.errors import ManifestError
from pipeline.shards.index import BlockIndex
from pipeline.shards.manifest import Manifest

__all__ = ["QUARANTINE", "Quarantine", "read_quarantine"]

QUARANTINE = "quarantine.json"


@dataclass(frozen=True)
class Quarantine:
    """Blocks, numbered over all shards, and the file's SHA-256 (empty where there is none)."""

    blocks: frozenset[int] = frozenset()
    sha256: str = ""


def read_quarantine(where: str, raw: bytes, manifest: Manifest, index: BlockIndex) -> Quarantine:
    """Blocks named by a list of `{"shard": path, "block": number in it, "reason": text}`.

    Raises:
        ManifestError: it is not such a list, or names what the set does not have.
    """
    shards = {shard.path: number for number, shard in enumerate(manifest.shards)}
    first = np.searchsorted(index.shard, np.arange(len(shards)))
    found = set()
    try:
        for entry in json.loads(raw):
            if set(entry) != {"shard", "block", "reason"}:
                raise ValueError(f"expected shard, block and reason, got {sorted(entry)}")
            shard, block = shards[entry["shard"]], int(entry["block"])
            if not 0 <= block < manifest.shards[shard].blocks:
                raise ValueError(f"{entry['shard']} has no block {block}")
            found.add(int(first[shard]) + block)
    except (ValueError, TypeError, KeyError) as error:
        raise ManifestError(f"{where}: not a list of blocks in quarantine: {error}") from error
    return Quarantine(frozenset(found), hashlib.sha256(raw).hexdigest())
