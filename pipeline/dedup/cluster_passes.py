"""The last passes of near-duplicate removal: documents to ranges of components, decisions, drops to parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.dedup.clusters import Clusters, resolve, smallest_uids
from pipeline.dedup.columns import hash_bounds, read_rows, rows_of, write_rows
from pipeline.dedup.component_passes import Step
from pipeline.dedup.contraction import ranks_of
from pipeline.dedup.counts import DedupCounts
from pipeline.dedup.near_passes import SignatureFacts
from pipeline.dedup.parts import COPY, DROP, Parts, write_clusters
from pipeline.execution.stage import Pass
from pipeline.execution.unit_record import Output

__all__ = ["NearClusters", "NearDrops", "NearMembers"]

_DEAL: Final = 1 << 20
"""Level of the ranks that deal components to ranges, which no label was chosen by."""
_CLUSTER: Final = (("cluster", "S16"), ("uid", "S16"), ("kept", "?"), ("similarity", "<f4"))
_PART_DROP: Final = (*DROP, ("part", "<u4"))


def _member(facts: SignatureFacts) -> tuple[tuple[str, str], ...]:
    """Return the columns of a document that shares a band key with another one."""
    keys, sketch = f"({facts.bands},)<u8", f"({facts.bands * facts.rows},)<u2"
    return ("part", "<u4"), ("uid", "S16"), ("merit", "<i8"), ("keys", keys), ("sketch", sketch)


@dataclass
class NearMembers(Pass[DedupCounts]):
    """Per part: documents that share a band key with another one, to the range of their component."""

    units: int
    parts: Parts
    facts: SignatureFacts
    name: str = "near-members"

    def run(self, unit: int, output: Output) -> DedupCounts:
        """Write the members of a part."""
        nodes, components = Step(self.parts, 1, unit).components()
        documents = self.parts.read("near-documents", "near-signatures", unit, self.facts.plain())
        ranks = ranks_of(components, _DEAL)
        order = np.argsort(ranks)
        rows = (nodes[order] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        columns = {name: documents[name][rows] for name in ("uid", "merit", "keys", "sketch")}
        columns["part"] = np.full(len(rows), unit, np.uint32)
        members = rows_of(_member(self.facts), columns)
        write_rows(output, self.parts.near_members, unit, members, hash_bounds(ranks[order], self.parts.ranges))
        return {"near": {"members": len(rows)}}


@dataclass
class NearClusters(Pass[DedupCounts]):
    """Per range of components: members checked against their representatives; clusters and drops, by uid."""

    units: int
    parts: Parts
    facts: SignatureFacts
    verify: float | None
    name: str = "near-clusters"

    def run(self, unit: int, output: Output) -> DedupCounts:
        """Write clusters to the range of their smallest uid, and drops to the range of their own."""
        rows = read_rows(self.parts.folder, self.parts.near_members, unit, _member(self.facts))
        uids, merit, keys, sketches = (np.ascontiguousarray(rows[name]) for name in ("uid", "merit", "keys", "sketch"))
        nodes = np.repeat(np.arange(len(rows)), self.facts.bands)
        decided = resolve(keys.reshape(-1), nodes, uids, merit, sketches, self.verify)
        dropped = np.flatnonzero(decided.kept != np.arange(len(uids)))
        members = np.flatnonzero(np.isin(decided.kept, decided.kept[dropped]))
        self._write_clusters(output, unit, uids, decided, members)
        order = dropped[np.argsort(uids[dropped])]
        drops = {"uid": uids[order], "kept": uids[decided.kept[order]], "part": rows["part"][order]}
        bounds = hash_bounds(drops["uid"], self.parts.ranges)
        write_rows(output, self.parts.near_decisions, unit, rows_of(_PART_DROP, drops), bounds)
        clusters = len(members) - len(dropped)
        return {"near": {"compared": len(rows), "clusters": clusters, "dropped": len(dropped)}}

    def _write_clusters(
        self, output: Output, unit: int, uids: NDArray[Any], decided: Clusters, members: NDArray[np.int64]
    ) -> None:
        names = uids[smallest_uids(decided.kept, uids)]
        order = members[np.argsort(names[members])]
        columns = {"cluster": names[order], "uid": uids[order], "kept": decided.kept[order] == order}
        columns["similarity"] = decided.similarity[order]
        bounds = hash_bounds(columns["cluster"], self.parts.ranges)
        write_rows(output, self.parts.near_clusters, unit, rows_of(_CLUSTER, columns), bounds)


@dataclass
class NearDrops(Pass[DedupCounts]):
    """Per range of uids: the file of its clusters, and its drops to the parts that name the dropped document."""

    units: int
    parts: Parts
    after_exact: bool
    name: str = "near-drops"

    def run(self, unit: int, output: Output) -> DedupCounts:
        """Write the clusters of a range, and its drops by part."""
        rows = read_rows(self.parts.folder, self.parts.near_clusters, unit, _CLUSTER)
        with output.file(f"clusters/near/{unit:06d}.arrow") as path:
            write_clusters(path, rows["cluster"], rows["uid"], rows["kept"], rows["similarity"])
        drops = read_rows(self.parts.folder, self.parts.near_decisions, unit, _PART_DROP)
        drops = self._with_copies(drops[np.argsort(drops["uid"])], unit) if self.after_exact else drops
        drops = drops[np.lexsort((drops["uid"], drops["part"]))]
        bounds = np.searchsorted(drops["part"], np.arange(self.parts.units + 1)).tolist()
        columns = {name: drops[name] for name, _ in DROP}
        write_rows(output, self.parts.near_drops, unit, rows_of(DROP, columns), bounds)
        return {}

    def _with_copies(self, drops: NDArray[Any], unit: int) -> NDArray[Any]:
        """Add, for parts that hold exact copies of a dropped document, what is kept in its place."""
        copies = read_rows(self.parts.folder, self.parts.exact_kept, unit, COPY)
        if not len(drops):
            return drops
        places = np.minimum(np.searchsorted(drops["uid"], copies["uid"]), len(drops) - 1)
        present = drops["uid"][places] == copies["uid"]
        more = drops[places[present]]
        more["part"] = copies["part"][present]
        return np.concatenate((drops, more))
