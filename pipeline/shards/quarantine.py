"""`quarantine.json`: a list of blocks that must not be read any more. It changes neither digest nor order."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import numpy as np
from pydantic import BaseModel, ConfigDict, TypeAdapter

from pipeline.shards.errors import ManifestError
from pipeline.shards.manifest import Manifest, first_problem
from pipeline.shards.shard_table import numbers_of, paths_of

__all__ = ["QUARANTINE", "Quarantine", "read_quarantine"]

QUARANTINE = "quarantine.json"


@dataclass(frozen=True)
class Quarantine:
    """Blocks, numbered over all shards, and the file's SHA-256 (empty where there is no file)."""

    blocks: frozenset[int] = frozenset()
    sha256: str = ""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    shard: str
    block: int
    reason: str


_ENTRIES: Final = TypeAdapter(list[_Entry])


def read_quarantine(where: str, raw: bytes, manifest: Manifest) -> Quarantine:
    """Parse a list of `{"shard": path, "block": number in it, "reason": text}`.

    Raises:
        ManifestError: it is not such a list, or names what the set does not have.
    """
    shards = {path: number for number, path in enumerate(paths_of(manifest.shards))}
    counts = numbers_of(manifest.shards, "blocks")
    first = np.cumsum(counts) - counts
    found = set()
    try:
        for entry in _ENTRIES.validate_json(raw):
            shard = shards.get(entry.shard)
            if shard is None or not 0 <= entry.block < counts[shard]:
                raise ValueError(f"the set has no block {entry.block} of {entry.shard}")
            found.add(int(first[shard]) + entry.block)
    except ValueError as error:
        raise ManifestError(f"{where}: not a list of blocks in quarantine: {first_problem(error)}") from error
    return Quarantine(frozenset(found), hashlib.sha256(raw).hexdigest())
