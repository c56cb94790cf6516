"""Find the documents in packed rows.

A packed row names only the document of its first token. Grouping concatenates the documents of a
shard in a keyed order; that order and the lengths in the tables of `encode` tell which documents
follow.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clozeline.files import folders_above
from clozeline.pipeline.group.documents import document_order_key, token_shards
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import Manifest, ShardSet
from clozeline.pipeline.shards.layout import is_heldout, shard_of
from clozeline.tools.shards.provenance.document_table import (
    document_tables,
    grouping_of,
    read_table,
    uid_keys,
)


@dataclass(frozen=True)
class Packing:
    """Documents of a set in the order in which grouping concatenated them.

    Shard after shard; each array is [n].

    `begins` is the position of a document's first token among all tokens and separators, `ends` the
    one after its last token. `lengths` are the tokens of a full row, per part.
    """

    uids: NDArray[np.bytes_]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    shards: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @cached_property
    def _by_uid(self) -> NDArray[np.intp]:
        return np.argsort(self.uids)

    def documents(self, rows: RowBatch) -> list[list[bytes]]:
        """Return the document uids of each row, in order.

        Of an unknown first document, only that one.
        """
        first, last, _ = self._spans(rows)
        # as values whose bytes all count, also zeros at the end
        packed = self.uids.view("V16")
        uids = [uid.tobytes() for uid in rows.fixed["document_uid"]]
        return [
            [uid, *packed[start + 1 : stop].tolist()]
            for uid, start, stop in zip(uids, first.tolist(), last.tolist(), strict=True)
        ]

    def contains_documents(
        self, rows: RowBatch, documents_wanted: NDArray[np.bytes_]
    ) -> NDArray[np.bool_]:
        """Return which rows contain a token of the given documents, bool [rows].

        Separators do not count.
        """
        wanted_until = np.cumsum(np.isin(self.uids, documents_wanted))
        first, last, text = self._spans(rows)
        begin_inside: NDArray[np.bool_] = wanted_until[last - 1] > wanted_until[first]
        return begin_inside | (
            text & np.isin(uid_keys(rows.fixed["document_uid"]), documents_wanted)
        )

    def _spans(
        self, rows: RowBatch
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return the documents `first .. last` of each row.

        Also whether the row starts with text of the first.
        """
        # document of the first token [rows]; rows of copies and unknown documents have no known
        # position
        keys = uid_keys(rows.fixed["document_uid"])
        order = self._by_uid
        first = order[np.minimum(np.searchsorted(self.uids, keys, sorter=order), len(order) - 1)]
        known = (self.uids[first] == keys) & (rows.fixed["copy"] == 0)
        # token range of each row in its shard, then the last document that starts before the end of
        # the row
        start = self.begins[first] + rows.fixed["document_offset"]
        stop = start + self.lengths[np.minimum(rows.fixed["part"], len(self.lengths) - 1)]
        of_shard = np.searchsorted(self.shards, self.shards[first], side="right")
        last = np.minimum(np.searchsorted(self.begins, stop), of_shard)
        return first, np.where(known, last, first + 1), ~known | (start < self.ends[first])


def sample_manifest(shards: ShardSet) -> tuple[Path, Manifest] | None:
    """Return path and manifest of the sample set that a set was made from (maybe itself).

    None if none is above it.
    """
    if shards.manifest.kind == "samples":
        return shards.path, shards.manifest
    for parent in shards.manifest.parents:
        for folder in folders_above(shards.path) if parent.role == "samples" else ():
            path = folder / "group" / parent.name / "manifest.json"
            if path.parent.is_dir():
                manifest = Manifest.load(path)
                if manifest.digest == parent.digest:
                    return path, manifest
    return None


def packing_of(shards: ShardSet, documents: Collection[bytes] | None = None) -> Packing | None:
    """Return the packing of a set.

    None if it is not packed, or no sample set and document tables are above it.

    It covers the shards of some documents, whose tables alone are read, or all.
    """
    samples = sample_manifest(shards)
    tables = document_tables(shards.path)
    grouping = grouping_of(shards.manifest)
    if grouping is None or samples is None or not tables or not grouping.cuts_at_length:
        return None
    manifest = samples[1]
    fraction = manifest.config.get("heldout_fraction")
    tokens = {parent.digest for parent in manifest.parents if parent.role == "tokens"}
    if fraction is None or Manifest.load(tables[0].parent).digest not in tokens:
        return None
    wanted: Sequence[int] = range(len(manifest.shards))
    if documents is not None:
        wanted = sorted({shard_of(uid, len(manifest.shards), manifest.seed) for uid in documents})
    uids, sizes, shard_numbers = _order_documents(tables, manifest, fraction, wanted)
    if not len(uids):
        return None
    step = sizes + grouping.separators
    begins = np.cumsum(step) - step
    lengths = np.array(grouping.lengths, np.int64)
    return Packing(uids, begins, begins + sizes, shard_numbers, lengths)


def _order_documents(
    tables: list[Path], manifest: Manifest, fraction: float, wanted: Sequence[int]
) -> tuple[NDArray[np.bytes_], NDArray[np.int64], NDArray[np.int64]]:
    """Return uids, token counts and shards of the documents of some shards.

    Only non-empty ones of a split, in the order of `group`.

    Training documents keep their token shard; held-out ones go to fewer shards by a hash of the
    uid.
    """
    heldout = manifest.name.endswith("/heldout")
    shards = len(manifest.shards)
    seed = manifest.seed
    entries: list[tuple[int, int, bytes, int]] = []
    sources = {number for shard in wanted for number in token_shards(shard, shards, len(tables))}
    for number in sorted(sources):
        table = read_table(tables[number], ("uid", "tokens"))
        for uid, tokens in zip(table["uid"].to_pylist(), table["tokens"].to_pylist(), strict=True):
            shard = shard_of(uid, shards, seed) if heldout else number
            if tokens and is_heldout(uid, fraction, seed) == heldout and shard in wanted:
                entries.append((shard, document_order_key(uid, 0, seed), uid, tokens))

    entries.sort()
    uids = np.frombuffer(b"".join(entry[2] for entry in entries), "S16")
    sizes = np.array([entry[3] for entry in entries], np.int64)
    return uids, sizes, np.array([entry[0] for entry in entries], np.int64)
