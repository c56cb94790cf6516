"""The last passes of near-duplicate removal: documents to ranges of components, decisions, drops to parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.dedup.clusters import Clusters, resolve, smallest_uids
from clozeline.pipeline.dedup.columns import hash_bounds, read_rows, rows_of, write_rows
from clozeline.pipeline.dedup.component_passes import Step
from clozeline.pipeline.dedup.contraction import ranks_of
from clozeline.pipeline.dedup.counts import DedupCounts, read_by
from clozeline.pipeline.dedup.near_passes import SignatureFacts
from clozeline.pipeline.dedup.parts import CLUSTER, COPY, DROP, Parts, write_clusters
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, require_equal

_DEAL: Final = 1 << 20
"""Level of the ranks that deal components to ranges, which no label was chosen by."""
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
        step = Step(self.parts, 1, unit)
        nodes, components = step.components()
        documents = self.parts.read("near-documents", "near-signatures", unit, self.facts.plain())
        ranks = ranks_of(components, _DEAL)
        order = np.argsort(ranks)
        rows = (nodes[order] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        columns = {name: documents[name][rows] for name in ("uid", "merit", "keys", "sketch")}
        columns["part"] = np.full(len(rows), unit, np.uint32)
        members = rows_of(_member(self.facts), columns)
        write_rows(output, self.parts.near_members, unit, members, hash_bounds(ranks[order], self.parts.ranges))
        return {"taken": read_by(self.name, step.taken), "near": {"members": len(rows)}}


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
        sent = {self.parts.near_clusters.kind: len(members), self.parts.near_decisions.kind: len(dropped)}
        clusters = len(members) - len(dropped)
        return {"sent": sent, "near": {"compared": len(rows), "clusters": clusters, "dropped": len(dropped)}}

    def _write_clusters(
        self, output: Output, unit: int, uids: NDArray[Any], decided: Clusters, members: NDArray[np.int64]
    ) -> None:
        names = uids[smallest_uids(decided.kept, uids)]
        order = members[np.argsort(names[members])]
        columns = {"cluster": names[order], "uid": uids[order], "kept": decided.kept[order] == order}
        columns["similarity"] = decided.similarity[order]
        bounds = hash_bounds(columns["cluster"], self.parts.ranges)
        write_rows(output, self.parts.near_clusters, unit, rows_of(CLUSTER, columns), bounds)


@dataclass
class NearDrops(Pass[DedupCounts]):
    """Per range of uids: the file of its clusters, and its drops to the parts that name the dropped document."""

    units: int
    parts: Parts
    after_exact: bool
    name: str = "near-drops"

    def run(self, unit: int, output: Output) -> DedupCounts:
        """Write the clusters of a range, and its drops by part."""
        parts = self.parts
        rows = read_rows(parts.folder, parts.near_clusters, unit, CLUSTER)
        name = f"clusters/near/{unit:06d}.arrow"
        with output.file(name) as path:
            written = write_clusters(path, rows)
        require_equal(f"dedup: {name}", "members of clusters", len(rows), "rows written", written)
        drops = read_rows(parts.folder, parts.near_decisions, unit, _PART_DROP)
        read = {parts.near_clusters.kind: len(rows), parts.near_decisions.kind: len(drops)}
        if self.after_exact:
            copies = read_rows(parts.folder, parts.exact_kept, unit, COPY)
            read[parts.exact_kept.kind] = len(copies)
            drops = _with_copies(drops[np.argsort(drops["uid"])], copies)
        drops = drops[np.lexsort((drops["uid"], drops["part"]))]
        bounds = np.searchsorted(drops["part"], np.arange(self.parts.units + 1)).tolist()
        columns = {name: drops[name] for name, _ in DROP}
        write_rows(output, parts.near_drops, unit, rows_of(DROP, columns), bounds)
        return {"sent": {parts.near_drops.kind: len(drops)}, "taken": read_by(self.name, read)}


def _with_copies(drops: NDArray[Any], copies: NDArray[Any]) -> NDArray[Any]:
    """Add, for parts that hold exact copies of a dropped document, what is kept in its place."""
    if not len(drops):
        return drops
    places = np.minimum(np.searchsorted(drops["uid"], copies["uid"]), len(drops) - 1)
    present = drops["uid"][places] == copies["uid"]
    more = drops[places[present]]
    more["part"] = copies["part"][present]
    return np.concatenate((drops, more))
