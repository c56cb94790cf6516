"""Finding rows of a shard set: the blocks of a shard, and the rows of a sample."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

import numpy as np

from pipeline.errors import ConfigurationError
from pipeline.seeding import mix
from pipeline.shards import ShardSet

__all__ = ["blocks_of", "find_rows", "readable_blocks"]


def blocks_of(shards: ShardSet, shard: int) -> range:
    """Numbers, over all shards, of a shard's blocks."""
    first, last = np.searchsorted(shards.index.shard, [shard, shard + 1])
    return range(int(first), int(last))


def readable_blocks(shards: ShardSet) -> list[int]:
    """Numbers of the blocks that are not in quarantine: the others need not be what they were, or be there at all."""
    return [block for block in range(len(shards.index)) if block not in shards.quarantined]


def find_rows(shards: ShardSet, uid: int) -> list[tuple[int, int]]:
    """Block and row of every example of a sample, one for each variant.

    The rows of a shard stand in order of the hash of their uid, so a shard is searched by halving. A set that has
    none in its place may be in another order: then every block is read. Empty where there is none.

    Raises:
        ConfigurationError: the set's rows have no uid.
    """
    if "uid" not in (spec.name for spec in shards.columns):
        raise ConfigurationError(f"{shards.path}: rows of a set of {shards.manifest.kind} have no sample uid")
    for blocks in (_likely_blocks(shards, uid), range(len(shards.index))):
        found = [(block, int(row)) for block in blocks for row in np.flatnonzero(_uids(shards, block) == uid)]
        if found:
            return found
    return []


def _uids(shards: ShardSet, block: int) -> np.ndarray:
    uids: np.ndarray = shards.read_block(block, columns=("uid",)).fixed["uid"].astype(np.uint64)
    return uids


def _likely_blocks(shards: ShardSet, uid: int) -> Iterable[int]:
    """Blocks that may hold a uid where every shard is in order."""
    wanted = int(mix(np.array([uid], np.uint64))[0])
    for shard in range(len(shards.manifest.shards)):
        yield from _likely_in(shards, blocks_of(shards, shard), wanted)


def _likely_in(shards: ShardSet, blocks: range, wanted: int) -> Iterator[int]:
    def bound(block: int, row: int) -> int:
        return int(mix(_uids(shards, block)[[row]])[0])

    for block in blocks[bisect_left(blocks, wanted, key=lambda block: bound(block, -1)) :]:
        if bound(block, 0) > wanted:
            return
        yield block
