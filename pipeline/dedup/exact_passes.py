"""Passes of exact dedup: hash each part into a sorted run, then find equal hashes range by range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.dedup.columns import range_slice, uid_column, write_columns
from pipeline.dedup.counts import DedupCounts
from pipeline.dedup.exact import EXACT_COLUMNS, Key, content_hashes
from pipeline.dedup.keep import KEEP_COLUMNS, Keep, kept_rows, merits
from pipeline.dedup.parts import Parts, write_clusters
from pipeline.documents.files import read_batches
from pipeline.errors import IntegrityError
from pipeline.execution.stage import Pass
from pipeline.execution.unit_record import Output

__all__ = ["ExactHashes", "ExactSurvivors"]


@dataclass
class ExactHashes(Pass[DedupCounts]):
    """Per part: (hash, uid, merit) of every document, sorted by hash."""

    units: int
    parts: Parts
    key: Key
    keep: Keep
    name: str = "exact-hashes"

    def run(self, unit: int, output: Output) -> DedupCounts:
        """Write the run of a part."""
        hashes, uids = [uid_column([])], [uid_column([])]
        merit = [np.empty(0, dtype=np.int64)]
        for batch in read_batches(self.parts.source(unit), ("uid", *EXACT_COLUMNS, *KEEP_COLUMNS)):
            digests, present = content_hashes(batch, self.key)
            hashes.append(digests[present])
            uids.append(uid_column(batch.column("uid").to_pylist())[present])
            merit.append(merits(batch, self.keep)[present])
        columns = {"hash": np.concatenate(hashes), "uid": np.concatenate(uids), "merit": np.concatenate(merit)}
        order = np.lexsort((columns["uid"], columns["hash"]))
        with output.file(self.parts.temporary("exact-hashes", unit)) as path:
            write_columns(path, {name: values[order] for name, values in columns.items()})
        return {"hashed": len(order)}


@dataclass
class ExactSurvivors(Pass[DedupCounts]):
    """Per hash range: groups of equal hashes, the one of each that stays, and the drops of every part."""

    units: int
    parts: Parts
    name: str = "exact-survivors"

    def run(self, unit: int, output: Output) -> DedupCounts:
        """Write the clusters and the drops of a hash range."""
        hashes, uids, merit, part = self._gather(unit)
        kept = kept_rows(hashes, merit, uids)
        self._check_repeated(kept, uids)
        dropped = np.flatnonzero(kept != np.arange(len(kept)))
        order = dropped[np.lexsort((uids[dropped], part[dropped]))]
        drops = {"part": part[order], "uid": uids[order], "kept": uids[kept[order]]}
        with output.file(self.parts.temporary("exact-drops", unit)) as path:
            write_columns(path, drops)
        members = np.flatnonzero(np.isin(kept, kept[dropped]))
        names = kept_rows(kept[members], np.zeros(len(members), dtype=np.int64), uids[members])
        stays = kept[members] == members
        with output.file(f"clusters/exact/{unit:06d}.arrow") as path:
            ones = np.ones(len(members), dtype=np.float32)
            write_clusters(path, uids[members][names], uids[members], stays, ones)
        return {"exact": {"clusters": int(stays.sum()), "dropped": len(dropped)}}

    def _gather(
        self, index: int
    ) -> tuple[NDArray[np.bytes_], NDArray[np.bytes_], NDArray[np.int64], NDArray[np.uint32]]:
        hashes, uids, merit, part = [], [], [], []
        for number in range(self.parts.units):
            run = self.parts.read("exact-hashes", number)
            inside = range_slice(run["hash"], index, self.parts.ranges)
            hashes.append(run["hash"][inside])
            uids.append(run["uid"][inside])
            merit.append(run["merit"][inside])
            part.append(np.full(inside.stop - inside.start, number, dtype=np.uint32))
        return np.concatenate(hashes), np.concatenate(uids), np.concatenate(merit), np.concatenate(part)

    def _check_repeated(self, kept: NDArray[np.int64], uids: NDArray[np.bytes_]) -> None:
        order = np.lexsort((uids, kept))
        same = (uids[order][1:] == uids[order][:-1]) & (kept[order][1:] == kept[order][:-1])
        if same.any():
            uid = uids[order][1:][same][0].ljust(16, b"\0").hex()
            raise IntegrityError(
                f"dedup: document {uid} is there twice below {self.parts.documents}: the same record was read twice; "
                "name each input once"
            )
