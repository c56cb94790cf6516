"""Rows of a shard set, found by shard, by sample or by document."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.seeding import mix
from clozeline.tools.command import counted
from clozeline.tools.shards.provenance.document_table import uid_keys
from clozeline.tools.shards.provenance.packed_documents import packing_of, sample_manifest

_IDENTITY: Final = ("uid", "variant", "document_uid", "document_offset", "copy", "part")
PARTNER: Final = "partner_document_uid"
"""column of sample sets of pairs: the document of the second half"""
PAIR_LABEL: Final = "sentence_label"
"""column of their examples: 0 where the partner was left out"""


class StoredRow(NamedTuple):
    """A row of a set: number of its block over all shards, row in the block, sample and variant."""

    block: int
    row: int
    uid: int
    variant: int


def blocks_of(shards: ShardSet, shard: int) -> range:
    """Return the numbers, over all shards, of a shard's blocks."""
    first, last = np.searchsorted(shards.index.shard, [shard, shard + 1])
    return range(int(first), int(last))


def readable_blocks(shards: ShardSet) -> list[int]:
    """Return the numbers of the blocks that are not in quarantine; the others may be damaged or missing."""
    return [block for block in range(len(shards.index)) if block not in shards.quarantined]


def find_rows(shards: ShardSet, uid: int) -> list[StoredRow]:
    """Return the examples of a sample, one for each variant.

    The rows of a shard are in order of the hash of their uid, so each shard is searched by halving. If that finds
    nothing, the set may be in another order, and every block is read. Blocks in quarantine are never read.

    Raises:
        ConfigurationError: the set's rows have no uid.
    """
    if "uid" not in (spec.name for spec in shards.columns):
        raise ConfigurationError(f"{shards.path}: rows of a set of {shards.manifest.kind} have no sample uid")
    readable = readable_blocks(shards)
    for blocks in (_likely_blocks(shards, readable, uid), readable):
        found = [one for block in blocks for one in _rows_of(shards, block, uid)]
        if found:
            return found
    return []


def find_document_rows(shards: ShardSet, documents: Collection[bytes]) -> tuple[list[StoredRow], str]:
    """Return the rows that hold tokens of some documents, and a text that names the rows which cannot be found.

    These are rows whose first token is theirs, packed rows in which they begin, and pairs of which they are the
    partner. The last two need the sample set and the tables of documents above the set. Each block is read once.

    Args:
        shards: a set of samples or examples.
        documents: document uids, 16 bytes each.
    """
    wanted = np.frombuffer(b"".join(documents), "S16")
    grouping, packing, partnered = shards.manifest.grouping, packing_of(shards), _partnered(shards, wanted)
    not_found = []
    if packing is None and grouping is not None and grouping.name in ("packed", "full_sentences"):
        known = grouping.name == "packed"
        why = "no group/ and encode/ above the set" if known else "rows of whole sentences have no fixed length"
        not_found.append(f"rows in which it begins after another document ({why})")
    if partnered is None and grouping is not None and grouping.options.get("partner"):
        not_found.append("pairs of which it is the second half (no group/ above the set)")
    if shards.quarantined:
        not_found.append(f"rows of {counted(len(shards.quarantined), 'block')} in quarantine")
    found: list[StoredRow] = []
    for block in readable_blocks(shards):
        rows = shards.read_block(block, columns=(*_IDENTITY, PAIR_LABEL))
        if packing is not None:
            mask = packing.holding(rows, wanted)
        else:
            mask = np.isin(uid_keys(rows.fixed["document_uid"]), wanted)
        if partnered is not None:
            mask |= np.isin(rows.fixed["uid"], partnered) & _with_partner(rows)
        found += _chosen(block, rows, mask)
    return found, ", ".join(not_found)


def _partnered(shards: ShardSet, wanted: NDArray[np.bytes_]) -> NDArray[np.uint64] | None:
    """Return the uids of the samples whose partner is a wanted document; None without a sample set."""
    samples = sample_manifest(shards)
    if samples is None:
        return None
    found = [np.empty(0, np.uint64)]
    if PARTNER in (column.name for column in samples[1].columns):
        source = open_shards(samples[0])
        for block in readable_blocks(source):
            rows = source.read_block(block, columns=("uid", PARTNER))
            partners = rows.columns[PARTNER].values.reshape(-1, 16)
            found.append(rows.fixed["uid"][np.isin(uid_keys(partners), wanted)])
    return np.concatenate(found)


def _with_partner(rows: Rows) -> NDArray[np.bool_]:
    if PAIR_LABEL not in rows.columns:
        return np.ones(len(rows), np.bool_)
    used: NDArray[np.bool_] = rows.columns[PAIR_LABEL].values != 0
    return used


def _rows_of(shards: ShardSet, block: int, uid: int) -> Iterator[StoredRow]:
    rows = shards.read_block(block, columns=("uid", "variant"))
    return _chosen(block, rows, rows.fixed["uid"] == np.uint64(uid))


def _chosen(block: int, rows: Rows, mask: NDArray[np.bool_]) -> Iterator[StoredRow]:
    for row in np.flatnonzero(mask).tolist():
        yield StoredRow(block, row, int(rows.fixed["uid"][row]), int(rows.fixed["variant"][row]))


def _likely_blocks(shards: ShardSet, readable: list[int], uid: int) -> Iterable[int]:
    """Yield the blocks that may hold a uid if every shard is in order."""
    wanted = int(mix(np.array([uid], np.uint64))[0])
    for shard in range(len(shards.manifest.shards)):
        blocks = blocks_of(shards, shard)
        first, last = bisect_left(readable, blocks.start), bisect_left(readable, blocks.stop)
        yield from _likely_in(shards, readable[first:last], wanted)


def _likely_in(shards: ShardSet, blocks: list[int], wanted: int) -> Iterator[int]:
    def bound(block: int, row: int) -> int:
        return int(mix(shards.read_block(block, columns=("uid",)).fixed["uid"][[row]])[0])

    for block in blocks[bisect_left(blocks, wanted, key=lambda block: bound(block, -1)) :]:
        if bound(block, 0) > wanted:
            return
        yield block
