"""Passes of exact dedup: hash each part into a sorted run, then find equal hashes range by range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import IntegrityError
from clozeline.pipeline.dedup.columns import hash_bounds, read_rows, rows_of, uid_column, write_rows
from clozeline.pipeline.dedup.counts import DedupCounts
from clozeline.pipeline.dedup.exact import EXACT_COLUMNS, Key, content_hashes
from clozeline.pipeline.dedup.keep_rules import KEEP_COLUMNS, Keep, kept_rows, merits
from clozeline.pipeline.dedup.parts import CLUSTER, COPY, DROP, Parts, write_clusters
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, require_equal
from clozeline.pipeline.ingest.documents.files import read_batches

_ROW: Final = (("hash", "S16"), ("uid", "S16"), ("merit", "<i8"), ("part", "<u4"))


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
        merit, without_key = [np.empty(0, dtype=np.int64)], 0
        for batch in read_batches(self.parts.source(unit), ("uid", *EXACT_COLUMNS, *KEEP_COLUMNS)):
            digests, present = content_hashes(batch, self.key)
            without_key += len(present) - int(present.sum())
            hashes.append(digests[present])
            uids.append(uid_column(batch.column("uid").to_pylist())[present])
            merit.append(merits(batch, self.keep)[present])
        columns = {"hash": np.concatenate(hashes), "uid": np.concatenate(uids), "merit": np.concatenate(merit)}
        columns["part"] = np.full(len(columns["hash"]), unit, np.uint32)
        rows = rows_of(_ROW, columns)[np.lexsort((columns["uid"], columns["hash"]))]
        write_rows(output, self.parts.exact_hashes, unit, rows, hash_bounds(rows["hash"], self.parts.ranges))
        return {"hashed": len(rows), "without_key": without_key}


@dataclass
class ExactSurvivors(Pass[DedupCounts]):
    """Per hash range: groups of equal hashes, the one of each that stays, and the drops of every part.

    Before near dedup it also tells which parts hold copies of a document that stays: that one may be dropped then.
    """

    units: int
    parts: Parts
    before_near: bool
    name: str = "exact-survivors"

    def run(self, unit: int, output: Output) -> DedupCounts:
        """Write the clusters and the drops of a hash range."""
        rows = read_rows(self.parts.folder, self.parts.exact_hashes, unit, _ROW)
        uids, part = np.ascontiguousarray(rows["uid"]), rows["part"]
        kept = kept_rows(np.ascontiguousarray(rows["hash"]), rows["merit"], uids)
        self._check_repeated(kept, uids)
        dropped = np.flatnonzero(kept != np.arange(len(kept)))
        order = dropped[np.lexsort((uids[dropped], part[dropped]))]
        drops = rows_of(DROP, {"uid": uids[order], "kept": uids[kept[order]]})
        bounds = np.searchsorted(part[order], np.arange(self.parts.units + 1)).tolist()
        write_rows(output, self.parts.drops, unit, drops, bounds)
        sent: dict[str, int] = {}
        if self.before_near:
            copies = _once(rows_of(COPY, {"uid": drops["kept"], "part": part[order]}))
            sent[self.parts.exact_kept.kind] = len(copies)
            write_rows(output, self.parts.exact_kept, unit, copies, hash_bounds(copies["uid"], self.parts.ranges))
        members = np.flatnonzero(np.isin(kept, kept[dropped]))
        names = kept_rows(kept[members], np.zeros(len(members), dtype=np.int64), uids[members])
        stays = kept[members] == members
        columns = {"cluster": uids[members][names], "uid": uids[members], "kept": stays}
        columns["similarity"] = np.ones(len(members), dtype=np.float32)
        name = f"clusters/exact/{unit:06d}.arrow"
        with output.file(name) as path:
            written = write_clusters(path, rows_of(CLUSTER, columns))
        require_equal(f"dedup: {name}", "members of clusters", len(members), "rows written", written)
        clusters = int(stays.sum())
        return {"sent": sent, "exact": {"compared": len(rows), "clusters": clusters, "dropped": len(dropped)}}

    def _check_repeated(self, kept: NDArray[np.int64], uids: NDArray[np.bytes_]) -> None:
        order = np.lexsort((uids, kept))
        same = (uids[order][1:] == uids[order][:-1]) & (kept[order][1:] == kept[order][:-1])
        if same.any():
            uid = uids[order][1:][same][0].ljust(16, b"\0").hex()
            raise IntegrityError(
                f"dedup: document {uid} is there twice below {self.parts.documents}: the same record was read twice; "
                "name each input once"
            )


def _once(copies: NDArray[Any]) -> NDArray[Any]:
    """Return each row once, sorted."""
    ordered = copies[np.lexsort((copies["part"], copies["uid"]))]
    opens = np.ones(len(ordered), dtype=bool)
    opens[1:] = ordered[1:] != ordered[:-1]
    return ordered[opens]
