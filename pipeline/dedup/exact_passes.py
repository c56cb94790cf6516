"""Passes of exact dedup: hash the documents of each part, then find equal hashes range by range."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from clozeline.errors import IntegrityError
from clozeline.pipeline.dedup.columns import hash_bounds, pack_rows, read_rows, uid_column, write_rows
from clozeline.pipeline.dedup.components import run_starts
from clozeline.pipeline.dedup.config import Keep, Key
from clozeline.pipeline.dedup.counts import DedupCounts
from clozeline.pipeline.dedup.exact import EXACT_COLUMNS, content_hashes
from clozeline.pipeline.dedup.keep_rules import KEEP_COLUMNS, choose_kept
from clozeline.pipeline.dedup.parts import CLUSTER, COPY, DROP, Parts, write_clusters
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, require_equal
from clozeline.pipeline.ingest.documents.files import read_batches

_ROW: Final = (("hash", "S16"), ("uid", "S16"), ("merit", "<i8"), ("part", "<u4"))


@dataclass
class ExactHashes(Pass[DedupCounts]):
    """Per part: send (hash, uid, merit) of every document to the range of its hash."""

    units: int
    parts: Parts
    key: Key
    keep: Keep
    name: str = "exact-hashes"

    def run(self, unit: int, output: Output) -> DedupCounts:
        hashes, uids = [uid_column([])], [uid_column([])]
        merit, without_key = [np.empty(0, dtype=np.int64)], 0
        for batch in read_batches(self.parts.source(unit), ("uid", *EXACT_COLUMNS, *KEEP_COLUMNS)):
            digests, present = content_hashes(batch, self.key)
            without_key += len(present) - int(present.sum())
            hashes.append(digests[present])
            uids.append(uid_column(batch.column("uid").to_pylist())[present])
            merit.append(self.parts.merits(unit, batch, self.keep)[present])
        columns = {"hash": np.concatenate(hashes), "uid": np.concatenate(uids), "merit": np.concatenate(merit)}
        columns["part"] = np.full(len(columns["hash"]), unit, np.uint32)
        rows = pack_rows(_ROW, columns)[np.lexsort((columns["uid"], columns["hash"]))]
        bounds = hash_bounds(rows["hash"], self.parts.ranges)
        write_rows(output, self.parts.exchange("exact-hashes"), unit, rows, bounds)
        if unit >= self.parts.own:
            return {"other": {"hashed": len(rows)}}
        return {"hashed": len(rows), "without_key": without_key}


@dataclass
class ExactSurvivors(Pass[DedupCounts]):
    """Per hash range: group equal hashes, choose the document to keep, and send the drops to their parts.

    Before near dedup, also record which parts hold copies of a kept document, because near dedup may drop it.
    """

    units: int
    parts: Parts
    before_near: bool
    name: str = "exact-survivors"

    def run(self, unit: int, output: Output) -> DedupCounts:
        rows = read_rows(self.parts.folder, self.parts.exchange("exact-hashes"), unit, _ROW)
        uids, part = np.ascontiguousarray(rows["uid"]), rows["part"]
        kept = choose_kept(np.ascontiguousarray(rows["hash"]), rows["merit"], uids)
        own = part < self.parts.own
        # a record of both outputs is a copy of itself
        ordered = np.flatnonzero(own)
        ordered = ordered[np.lexsort((uids[ordered], kept[ordered]))]
        same = (uids[ordered][1:] == uids[ordered][:-1]) & (kept[ordered][1:] == kept[ordered][:-1])
        if same.any():
            uid = uids[ordered][1:][same][0].ljust(16, b"\0").hex()
            raise IntegrityError(
                f"dedup: document {uid} is there twice below {self.parts.documents}: the same record was read twice; "
                "name each input once"
            )
        # drops, sorted by part and uid
        dropped = np.flatnonzero(kept != np.arange(len(kept)))
        order = dropped[np.lexsort((uids[dropped], part[dropped]))]
        drops = pack_rows(DROP, {"uid": uids[order], "kept": uids[kept[order]]})
        bounds = np.searchsorted(part[order], np.arange(self.parts.units + 1)).tolist()
        write_rows(output, self.parts.exchange("exact-drops"), unit, drops, bounds)
        sent: dict[str, int] = {}
        if self.before_near:
            # the distinct (kept uid, part) pairs, sorted
            copies = pack_rows(COPY, {"uid": drops["kept"], "part": part[order]})
            copies = copies[np.lexsort((copies["part"], copies["uid"]))]
            copies = copies[run_starts(copies)]
            sent["exact-kept"] = len(copies)
            bounds = hash_bounds(copies["uid"], self.parts.ranges)
            write_rows(output, self.parts.exchange("exact-kept"), unit, copies, bounds)
        # clusters, named by their smallest uid
        members = np.flatnonzero(np.isin(kept, kept[dropped[own[dropped]]]))
        names = choose_kept(kept[members], np.zeros(len(members), dtype=np.int64), uids[members])
        stays = (kept[members] == members) | ~own[members]
        columns = {"cluster": uids[members][names], "uid": uids[members], "kept": stays}
        columns["similarity"] = np.ones(len(members), dtype=np.float32)
        name = f"clusters/exact/{unit:06d}.arrow"
        with output.file(name) as path:
            written = write_clusters(path, pack_rows(CLUSTER, columns))
        require_equal(f"dedup: {name}", "members of clusters", len(members), "rows written", written)
        clusters, removed = len(np.unique(kept[members])), int(own[dropped].sum())
        return {"sent": sent, "exact": {"compared": len(rows), "clusters": clusters, "dropped": removed}}
