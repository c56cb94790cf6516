"""Find rows of a shard set by shard, sample or document."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import takewhile
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clozeline import plugins
from clozeline.columns import Feature
from clozeline.errors import ConfigurationError
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.pipeline.shards.block import ColumnSpec
from clozeline.pipeline.shards.layout import shard_of
from clozeline.seeding import mix
from clozeline.tools.shards.provenance.document_table import grouping_of, uid_keys
from clozeline.tools.shards.provenance.packed_documents import packing_of, sample_manifest

PARTNER: Final = "partner_document_uid"
"""column of sample sets of pairs: the document of the second segment"""
PAIR_LABEL: Final = "sentence_label"
"""column of example sets of pairs: 0 if the second segment is not the partner"""
_COLUMNS: Final = ("document_uid", "document_offset", "copy", "part", PAIR_LABEL)


class StoredRow(NamedTuple):
    """A row of a set: block number over all shards, row in the block, sample uid and variant."""

    block: int
    row: int
    uid: int
    variant: int


def blocks_of(shards: ShardSet, shard: int) -> range:
    """Return the block numbers, over all shards, of one shard."""
    first, last = np.searchsorted(shards.index.shard, [shard, shard + 1])
    return range(int(first), int(last))


def find_rows(shards: ShardSet, uid: int) -> list[StoredRow]:
    """Return the examples of a sample, one per variant.

    Rows of a shard are sorted by the hash of their uid, so each shard is searched by bisection. If
    that finds nothing, the set may be in another order, and every block is read.
    """
    if "uid" not in (spec.name for spec in shards.columns):
        raise ConfigurationError(
            f"{shards.path}: rows of a set of {shards.manifest.kind} have no sample uid"
        )

    return _find(
        shards, _likely_blocks(shards, uid), (), lambda rows: rows.fixed["uid"] == np.uint64(uid)
    )


def _find(
    shards: ShardSet,
    likely: Iterable[int],
    columns: Collection[str],
    matches: Callable[[RowBatch], NDArray[np.bool_]],
) -> list[StoredRow]:
    """Return the rows of likely blocks that match; if none does, those of all blocks."""
    found: list[StoredRow] = []
    for blocks in (likely, range(len(shards.index))):
        for block in blocks if not found else ():
            rows = shards.read_block(block, columns=("uid", "variant", *columns))
            found += [
                StoredRow(block, row, int(rows.fixed["uid"][row]), int(rows.fixed["variant"][row]))
                for row in np.flatnonzero(matches(rows)).tolist()
            ]
    return found


def find_document_rows(
    shards: ShardSet, documents: Collection[bytes]
) -> tuple[list[StoredRow], str]:
    """Return the rows with tokens of some documents.

    Also a text that names the rows which cannot be found.

    These are rows whose first token is theirs, packed rows in which they start, and pairs of which
    they are the partner. The last two need the sample set and the document tables above the set.
    Below them, a set has the rows of a document in one shard of each variant, which is read first;
    if it has none, every block is read.
    """
    documents_wanted = np.frombuffer(b"".join(documents), "S16")
    packing = packing_of(shards, documents) or packing_of(shards)
    grouping = grouping_of(shards.manifest)
    not_found = list[str]()
    partner_samples = _find_partner_samples(shards, documents_wanted)

    if packing is None and grouping is not None and grouping.holds_documents:
        reason = (
            "no group/ and encode/ above the set"
            if grouping.cuts_at_length
            else f"rows of {plugins.name_of(type(grouping))} have no fixed length"
        )
        not_found.append(f"rows in which it starts after another document ({reason})")

    if partner_samples is None and grouping is not None and has_partner(grouping.columns):
        not_found.append("pairs of which it is the second segment (no group/ above the set)")

    def has_text(rows: RowBatch) -> NDArray[np.bool_]:
        if packing is not None:
            mask = packing.contains_documents(rows, documents_wanted)
        else:
            mask = np.isin(uid_keys(rows.fixed["document_uid"]), documents_wanted)
        if partner_samples is not None:
            mask |= np.isin(rows.fixed["uid"], partner_samples) & (
                rows.columns[PAIR_LABEL].values != 0 if PAIR_LABEL in rows.columns else True
            )
        return mask

    any_shard = partner_samples is not None and len(partner_samples) > 0
    likely = [] if any_shard else _blocks_of_documents(shards, documents)
    return _find(shards, likely, _COLUMNS, has_text), ", ".join(not_found)


def _blocks_of_documents(shards: ShardSet, documents: Collection[bytes]) -> list[int]:
    """Return the blocks of the shards that can hold rows cut from some documents.

    Grouping keeps a document in the shard of its uid's hash; empty where the number of shards tells
    another origin.
    """
    samples = sample_manifest(shards)
    count = 0 if samples is None else len(samples[1].shards)
    if samples is None or len(shards.manifest.shards) != count * shards.manifest.variants:
        return []
    likely = [shard_of(uid, count, samples[1].seed) for uid in documents]
    # the shards of a variant follow those of the one before
    blocks: list[int] = np.flatnonzero(np.isin(shards.index.shard % count, likely)).tolist()
    return blocks


def has_partner(columns: Iterable[Feature | ColumnSpec]) -> bool:
    """Return whether rows tell the document of a second segment."""
    return PARTNER in (column.name for column in columns)


def _find_partner_samples(
    shards: ShardSet, documents_wanted: NDArray[np.bytes_]
) -> NDArray[np.uint64] | None:
    """Return the samples whose partner is one of the documents; None without a sample set."""
    samples = sample_manifest(shards)
    if samples is None:
        return None
    if not has_partner(samples[1].columns):
        return np.empty(0, np.uint64)

    def is_wanted(rows: RowBatch) -> NDArray[np.bool_]:
        return np.isin(uid_keys(rows.columns[PARTNER].values.reshape(-1, 16)), documents_wanted)

    found = _find(open_shards(samples[0]), (), (PARTNER,), is_wanted)
    return np.array([row.uid for row in found], np.uint64)


def _likely_blocks(shards: ShardSet, uid: int) -> Iterator[int]:
    """Yield the blocks that can hold a uid if every shard is sorted, found by bisection."""
    uid_hash = int(mix(np.array([uid], np.uint64))[0])

    def hash_at(block: int, row: int) -> int:
        return int(mix(shards.read_block(block, columns=("uid",)).fixed["uid"][[row]])[0])

    for shard in range(len(shards.manifest.shards)):
        blocks = blocks_of(shards, shard)
        start = bisect_left(blocks, uid_hash, key=lambda block: hash_at(block, -1))
        yield from takewhile(lambda block: hash_at(block, 0) <= uid_hash, blocks[start:])
