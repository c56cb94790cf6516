"""The documents in packed rows.

A packed row names the document of its first token only. Grouping lays the documents of a shard end to end in a keyed
order. From that order, and from the lengths in the tables of `encode`, the other documents follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.group.documents import heldout_shard, place_key
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import Manifest, ShardSet
from clozeline.pipeline.shards.splits import is_heldout
from clozeline.tools.shards.provenance.document_table import document_tables, read_table, uid_keys

_UID_BYTES: Final = 16


@dataclass(frozen=True)
class Packing:
    """Documents of a set, in the order in which grouping laid them end to end, shard after shard.

    Args:
        uids: document uids, shape [n].
        begins: position of its first token among all tokens and separators, shape [n].
        ends: position after its last token, without the separator, shape [n].
        shards: its shard, ascending, shape [n].
        lengths: tokens of a full row, by part.
    """

    uids: NDArray[np.bytes_]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    shards: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @cached_property
    def _by_uid(self) -> NDArray[np.intp]:
        return np.argsort(self.uids)

    def documents(self, rows: Rows) -> list[list[bytes]]:
        """Return the uids of the documents in each row, in their order; for an unknown first document, that alone."""
        first, last, _ = self._spans(rows)
        packed, size = self.uids.tobytes(), _UID_BYTES
        uids = [uid.tobytes() for uid in rows.fixed["document_uid"]]
        return [
            [uid, *(packed[size * at : size * (at + 1)] for at in range(start + 1, stop))]
            for uid, start, stop in zip(uids, first.tolist(), last.tolist(), strict=True)
        ]

    def holding(self, rows: Rows, wanted: NDArray[np.bytes_]) -> NDArray[np.bool_]:
        """Return which rows hold a token of a wanted document, bool [rows]; separators do not count."""
        chosen = np.isin(self.uids, wanted)
        before = np.concatenate(([0], np.cumsum(chosen)))
        first, last, text = self._spans(rows)
        begin_inside: NDArray[np.bool_] = before[last] > before[np.minimum(first + 1, last)]
        return begin_inside | (text & np.isin(uid_keys(rows.fixed["document_uid"]), wanted))

    def _spans(self, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return the documents `first .. last` of each row, and whether the row begins with text of the first."""
        keys, order = uid_keys(rows.fixed["document_uid"]), self._by_uid
        first = order[np.minimum(np.searchsorted(self.uids, keys, sorter=order), len(order) - 1)]
        known = (self.uids[first] == keys) & (rows.fixed["copy"] == 0)
        start = self.begins[first] + rows.fixed["document_offset"]
        stop = start + self.lengths[np.minimum(rows.fixed["part"], len(self.lengths) - 1)]
        of_shard = np.searchsorted(self.shards, self.shards[first], side="right")
        last = np.minimum(np.searchsorted(self.begins, stop), of_shard)
        return first, np.where(known, last, first + 1), ~known | (start < self.ends[first])


def sample_manifest(shards: ShardSet) -> tuple[Path, Manifest] | None:
    """Return the sample set that a set was made from, which may be the set itself; None if it is not found above it.

    Raises:
        ClozelineError: the manifest in its place is damaged, or its folder has lost it.
    """
    if shards.manifest.kind == "samples":
        return shards.path, shards.manifest
    for parent in shards.manifest.parents:
        for folder in shards.path.resolve().parents if parent.role == "samples" else ():
            path = folder / "group" / parent.name / "manifest.json"
            if path.parent.is_dir():
                found = Manifest.load(path)
                if found.digest == parent.digest:
                    return path, found
    return None


def packing_of(shards: ShardSet) -> Packing | None:
    """Return the packing of a set; None if it is not packed, or its samples and documents are not found above it."""
    samples, tables = sample_manifest(shards), document_tables(shards.path)
    grouping = shards.manifest.grouping
    if grouping is None or grouping.name != "packed" or samples is None or not tables:
        return None
    manifest = samples[1]
    fraction = manifest.config.get("heldout_fraction")
    tokens = {parent.digest for parent in manifest.parents if parent.role == "tokens"}
    if fraction is None or Manifest.load(tables[0].parent).digest not in tokens:
        return None
    uids, sizes, numbers = _in_order(tables, manifest, fraction)
    if not len(uids):
        return None
    options = grouping.options
    step = sizes + (options.get("separator", "none") != "none")
    begins = np.cumsum(step) - step
    lengths = [length for length, _ in options.get("parts", ())] or [options["length"]]
    return Packing(uids, begins, begins + sizes, numbers, np.array(lengths, np.int64))


def _in_order(
    tables: list[Path], manifest: Manifest, fraction: float
) -> tuple[NDArray[np.bytes_], NDArray[np.int64], NDArray[np.int64]]:
    """Return uids, token counts and shards of the documents of a split, in the order of `group`, without empty ones.

    Training documents keep their token shard; held-out ones are dealt to fewer shards by a word of their uid.
    """
    heldout, shards, seed = manifest.name.endswith("/heldout"), len(manifest.shards), manifest.seed
    found: list[tuple[int, int, bytes, int]] = []
    for number, path in enumerate(tables):
        table = read_table(path, ("uid", "tokens"))
        for uid, tokens in zip(table["uid"].to_pylist(), table["tokens"].to_pylist(), strict=True):
            if tokens and is_heldout(uid, fraction, seed) == heldout:
                shard = heldout_shard(uid, shards, seed) if heldout else number
                found.append((shard, place_key(uid, 0, seed), uid, tokens))
    found.sort()
    uids = np.frombuffer(b"".join(entry[2] for entry in found), "S16")
    sizes = np.array([entry[3] for entry in found], np.int64)
    return uids, sizes, np.array([entry[0] for entry in found], np.int64)
