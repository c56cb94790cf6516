"""The last passes of near-duplicate removal: deal documents to ranges of components, decide, send drops to parts."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from clozeline.pipeline.dedup.clusters import resolve, smallest_uids
from clozeline.pipeline.dedup.columns import hash_bounds, pack_rows, read_columns, read_rows, write_rows
from clozeline.pipeline.dedup.component_passes import ReceivedLinks
from clozeline.pipeline.dedup.contraction import locate_keys, rank_nodes
from clozeline.pipeline.dedup.counts import DedupCounts, read_by
from clozeline.pipeline.dedup.near_passes import SignatureParameters
from clozeline.pipeline.dedup.parts import CLUSTER, COPY, DROP, Parts, write_clusters
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, require_equal
from clozeline.recorded_file import find_file

_DEAL: Final = 1 << 20  # level of the ranks that deal components to ranges; no label is chosen by it
_PART_DROP: Final = (*DROP, ("part", "<u4"))


def _member_schema(parameters: SignatureParameters) -> tuple[tuple[str, str], ...]:
    keys, sketch = f"({parameters.bands},)<u8", f"({parameters.bands * parameters.rows},)<u2"
    return ("part", "<u4"), ("uid", "S16"), ("merit", "<i8"), ("keys", keys), ("sketch", sketch)


@dataclass
class NearMembers(Pass[DedupCounts]):
    """Per part: send the documents that share a band key to the range of their component."""

    units: int
    parts: Parts
    parameters: SignatureParameters
    name: str = "near-members"

    def run(self, unit: int, output: Output) -> DedupCounts:
        links = ReceivedLinks(self.parts, 1, unit)
        nodes, components = links.components()
        name = self.parts.temporary("near-documents", unit)
        file = find_file(self.parts.folder, f"near-signatures-{unit:06d}", name)
        documents = read_columns(file, self.parameters.plain())
        # deal the members to ranges by the rank of their component; a node is (part << 32 | row)
        ranks = rank_nodes(components, _DEAL)
        order = np.argsort(ranks)
        rows = (nodes[order] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        columns = {name: documents[name][rows] for name in ("uid", "merit", "keys", "sketch")}
        columns["part"] = np.full(len(rows), unit, np.uint32)
        members = pack_rows(_member_schema(self.parameters), columns)
        bounds = hash_bounds(ranks[order], self.parts.ranges)
        write_rows(output, self.parts.exchange("near-members"), unit, members, bounds)
        return {"taken": read_by(self.name, links.taken), "near": {"members": len(rows)}}


@dataclass
class NearClusters(Pass[DedupCounts]):
    """Per range of components: compare members with their representatives, send clusters and drops on by uid."""

    units: int
    parts: Parts
    parameters: SignatureParameters
    verify: float | None
    name: str = "near-clusters"

    def run(self, unit: int, output: Output) -> DedupCounts:
        parts = self.parts
        rows = read_rows(parts.folder, parts.exchange("near-members"), unit, _member_schema(self.parameters))
        uids, merit, keys, sketches = (np.ascontiguousarray(rows[name]) for name in ("uid", "merit", "keys", "sketch"))
        nodes = np.repeat(np.arange(len(rows)), self.parameters.bands)
        kept, similarity = resolve(keys.reshape(-1), nodes, uids, merit, sketches, self.verify)
        dropped = np.flatnonzero(kept != np.arange(len(uids)))
        members = np.flatnonzero(np.isin(kept, kept[dropped]))
        # members of clusters, by the smallest uid of the cluster
        names = uids[smallest_uids(kept, uids)]
        order = members[np.argsort(names[members])]
        columns = {"cluster": names[order], "uid": uids[order], "kept": kept[order] == order}
        columns["similarity"] = similarity[order]
        bounds = hash_bounds(columns["cluster"], parts.ranges)
        write_rows(output, parts.exchange("near-clusters"), unit, pack_rows(CLUSTER, columns), bounds)
        # dropped documents, by their uid
        order = dropped[np.argsort(uids[dropped])]
        drops = {"uid": uids[order], "kept": uids[kept[order]], "part": rows["part"][order]}
        bounds = hash_bounds(drops["uid"], parts.ranges)
        write_rows(output, parts.exchange("near-decisions"), unit, pack_rows(_PART_DROP, drops), bounds)
        clusters = len(members) - len(dropped)
        return {
            "sent": {"near-clusters": len(members), "near-decisions": len(dropped)},
            "near": {"compared": len(rows), "clusters": clusters, "dropped": len(dropped)},
        }


@dataclass
class NearDrops(Pass[DedupCounts]):
    """Per range of uids: write the clusters, and send drops to the parts that name the dropped document."""

    units: int
    parts: Parts
    after_exact: bool
    name: str = "near-drops"

    def run(self, unit: int, output: Output) -> DedupCounts:
        parts = self.parts
        rows = read_rows(parts.folder, parts.exchange("near-clusters"), unit, CLUSTER)
        name = f"clusters/near/{unit:06d}.arrow"
        with output.file(name) as path:
            written = write_clusters(path, rows)
        require_equal(f"dedup: {name}", "members of clusters", len(rows), "rows written", written)
        drops = read_rows(parts.folder, parts.exchange("near-decisions"), unit, _PART_DROP)
        read = {"near-clusters": len(rows), "near-decisions": len(drops)}
        if self.after_exact:
            copies = read_rows(parts.folder, parts.exchange("exact-kept"), unit, COPY)
            read["exact-kept"] = len(copies)
            # parts that hold exact copies of a dropped document also get the uid kept instead
            drops = drops[np.argsort(drops["uid"])]
            index, present = locate_keys(drops["uid"], copies["uid"])
            more = drops[index[present]]
            more["part"] = copies["part"][present]
            drops = np.concatenate((drops, more))
        drops = drops[np.lexsort((drops["uid"], drops["part"]))]
        bounds = np.searchsorted(drops["part"], np.arange(parts.units + 1)).tolist()
        columns = {name: drops[name] for name, _ in DROP}
        write_rows(output, parts.exchange("near-drops"), unit, pack_rows(DROP, columns), bounds)
        return {"sent": {"near-drops": len(drops)}, "taken": read_by(self.name, read)}
