"""Clusters of near-duplicates: components of documents that share band keys, and what each keeps.

    near-candidates  per range of keys    documents that share a key become pairs
    near-union       one unit             pairs are joined; components, to the parts
    near-members     per part             documents, to the range of their component
    near-resolve     per range            components are split and decided
    near-clusters    per range of uids    clusters are written, drops go to the parts

A node is a document: part << 32 | row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64, UInt64
from clozeline.pipeline.dedup.components import Components
from clozeline.pipeline.dedup.config import NearConfig
from clozeline.pipeline.dedup.near import (
    KEY_ROW,
    NEAR_VERSION,
    Sketch,
    open_sketches,
    read_band_keys,
)
from clozeline.pipeline.dedup.parts import (
    CLUSTER,
    COMPARED_PRIORITY,
    COPY,
    DROP,
    DedupCounts,
    Parts,
    Schema,
    Uids,
    build_clusters,
    find_hash_bounds,
    find_number_bounds,
    locate_keys,
    no_pieces,
    pack_rows,
    read_numbered_rows,
    read_rows,
    write_clusters,
    write_rows,
)
from clozeline.pipeline.dedup.representatives import (
    choose_representatives,
    order_shared,
    star_edges,
)
from clozeline.pipeline.execution.shuffle import Pieces, Shuffle
from clozeline.pipeline.execution.stages import Pass, Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import TEMPORARY, Output
from clozeline.seeding import below, mix

_ONE: Final = "000000"
"""Name of the unit of a pass with a single unit."""
_PAIR: Final = (("left", "<u8"), ("right", "<u8"))
"""Row of two nodes that share a key."""
_LABEL: Final = (("row", "<u4"), ("component", "<u8"))
"""Row of a document of a part: its component, which is the smallest node of it."""
_PART_DROP: Final = (*DROP, ("part", "<u4"))


@dataclass(frozen=True)
class NearCandidates(Unit[DedupCounts]):
    """Pair the documents that share a key of a range of band keys."""

    VERSION: ClassVar[int] = NEAR_VERSION
    number: int
    parts: tuple[str, ...]
    """names of the parts, whose numbers are those of the sources of keys"""
    keys: Pieces
    pairs: Shuffle

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        name = self.keys.destination(self.number)
        rows, part = read_numbered_rows(inputs, self.keys, name, KEY_ROW)
        shared = order_shared(rows["key"])
        nodes = part[shared].astype(np.uint64) << np.uint64(32) | rows["row"][shared]
        left, right = star_edges(rows["key"][shared], nodes)
        pairs = pack_rows(_PAIR, {"left": left, "right": right})
        write_rows(output, self.pairs, name, pairs, [0, len(pairs)])
        return {"near": {"candidates": len(shared)}}


@dataclass(frozen=True)
class NearUnion(Unit[DedupCounts]):
    """One unit: join the pairs while they are read, and send each part its components.

    It holds 4 bytes for each document that has a signature, see `Components`.
    """

    VERSION: ClassVar[int] = NEAR_VERSION
    sketch: Sketch
    pairs: Pieces
    labels: Shuffle
    """to all parts, whose numbers are in the pairs"""

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        # documents are numbered from 1, part by part
        files = [open_sketches(inputs, name) for name in self.labels.destinations]
        sizes = [file.bytes // self.sketch.dtype.itemsize for file in files]
        ends = np.cumsum(sizes, dtype=np.uint64)
        before = ends - np.array(sizes, np.uint64)
        components = Components(sum(sizes), output.folder / TEMPORARY)
        for _, piece in self.pairs.read(inputs, "dedup", _ONE):
            pairs = np.frombuffer(piece, np.dtype(list(_PAIR)))
            components.join(*(_number(pairs[side], before) for side in ("left", "right")))

        roots = components.roots()
        members = 0
        with self.labels.write(output, _ONE) as writer:
            for first, end in zip(before.tolist(), ends.tolist(), strict=True):
                rows = np.flatnonzero(roots[first:end])
                numbers = roots[first:end][rows].astype(np.uint64)
                part = np.searchsorted(ends, numbers).astype(np.uint64)
                component = part << np.uint64(32) | (numbers - before[part] - np.uint64(1))
                writer.add([pack_rows(_LABEL, {"row": rows, "component": component}).tobytes()])
                members += len(rows)
        return {"near": {"members": members}}


def _number(nodes: UInt64, before: UInt64) -> UInt64:
    """Return the numbers of documents, from 1, by the number of documents before each part."""
    rows = nodes & np.uint64(2**32 - 1)
    numbers: UInt64 = before[nodes >> np.uint64(32)] + rows + np.uint64(1)
    return numbers


def _member_schema(sketch: Sketch) -> Schema:
    return (("part", "<u4"), *sketch.schema, ("keys", f"({sketch.bands},)<u8"))


@dataclass(frozen=True)
class NearMembers(Unit[DedupCounts]):
    """Send sketches and band keys of the documents of a part to the range of their component."""

    VERSION: ClassVar[int] = NEAR_VERSION
    part: str
    number: int
    """number of the part"""
    is_compared: bool
    sketch: Sketch
    keys: Shuffle
    labels: Pieces
    members: Shuffle

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        name = self.part
        labels = read_rows(inputs, self.labels, name, _LABEL)
        documents = np.frombuffer(open_sketches(inputs, name).buffer(), self.sketch.dtype)
        is_chosen = np.zeros(len(documents), bool)
        is_chosen[labels["row"]] = True
        keys = read_band_keys(inputs, self.keys, name, is_chosen, self.sketch.bands)
        documents = documents[is_chosen]
        columns = {column: documents[column] for column, _ in self.sketch.schema}
        columns |= {"keys": keys, "part": np.full(len(documents), self.number, np.uint32)}
        if self.is_compared:
            columns["priority"] = np.full(len(documents), COMPARED_PRIORITY)
        members = pack_rows(_member_schema(self.sketch), columns)
        count = len(self.members.destinations)

        # sorting 16-bit numbers is fast
        ranges = below(mix(labels["component"]) >> np.uint64(32), count).astype(np.uint16)
        order = np.argsort(ranges, kind="stable")
        bounds = find_number_bounds(ranges[order], count)
        write_rows(output, self.members, name, members[order], bounds)
        return {}


@dataclass(frozen=True)
class NearResolve(Unit[DedupCounts]):
    """Choose the representatives of a range of components, see `choose_representatives`."""

    VERSION: ClassVar[int] = NEAR_VERSION
    number: int
    sketch: Sketch
    verify: float
    members: Pieces
    clusters: Shuffle
    dropped: Shuffle

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        own = self.members.destination(self.number)
        members = read_rows(inputs, self.members, own, _member_schema(self.sketch))
        uids = np.ascontiguousarray(members["uid"])
        kept, similarity = self._choose(members, uids)
        stays = kept == np.arange(len(kept))
        dropped = np.flatnonzero(~stays)
        clusters = build_clusters(kept, uids, similarity, dropped, stays)
        drops = {"uid": uids[dropped], "kept": uids[kept[dropped]]}
        drops["part"] = members["part"][dropped]
        for shuffle, rows, key in (
            (self.clusters, clusters, "cluster"),
            (self.dropped, pack_rows(_PART_DROP, drops), "uid"),
        ):
            rows = rows[np.argsort(rows[key], kind="stable")]
            bounds = find_hash_bounds(rows[key], len(shuffle.destinations))
            write_rows(output, shuffle, own, rows, bounds)
        return {"near": {"clusters": len(clusters) - len(dropped)}}

    def _choose(self, members: NDArray[Any], uids: Uids) -> tuple[Int64, NDArray[np.float32]]:
        keys = members["keys"].reshape(-1)
        shared = order_shared(keys)
        return choose_representatives(
            keys[shared],
            shared // self.sketch.bands,
            uids,
            np.ascontiguousarray(members["priority"]),
            members["sketch"],
            self.verify,
        )


@dataclass(frozen=True)
class NearClusters(Unit[DedupCounts]):
    """Write the clusters of a range of uids, and send drops to the parts that name the document."""

    VERSION: ClassVar[int] = NEAR_VERSION
    number: int
    clusters: Pieces
    dropped: Pieces
    kept: Pieces
    """copies of the documents that exact dedup kept"""
    drops: Shuffle
    """to all parts, whose numbers are in the drops"""

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        name = self.clusters.destination(self.number)
        with output.file(f"clusters/near/{self.number:06d}.arrow") as path:
            write_clusters(path, read_rows(inputs, self.clusters, name, CLUSTER))

        drops = read_rows(inputs, self.dropped, name, _PART_DROP)
        copies = read_rows(inputs, self.kept, name, COPY)
        if len(copies):
            # copies of a dropped document, which exact dedup removed, name the document kept
            # instead
            drops = drops[np.argsort(drops["uid"])]
            index, present = locate_keys(drops["uid"], copies["uid"])
            named = drops[index[present]]
            named["part"] = copies["part"][present]
            drops = np.concatenate([drops, named])

        drops = drops[np.lexsort((drops["uid"], drops["part"]))]
        bounds = find_number_bounds(drops["part"], len(self.drops.destinations))
        rows = pack_rows(DROP, {column: drops[column] for column, _ in DROP})
        write_rows(output, self.drops, name, rows, bounds)
        return {}


def near_passes(parts: Parts, config: NearConfig, after_exact: bool) -> Iterator[Pass[DedupCounts]]:
    """Yield the passes that find clusters, once `near-keys` is complete."""
    sketch = Sketch(config.ngram, config.bands, config.rows)
    ranges = parts.range_names
    find = parts.shuffle
    keys = find("near-keys")
    members = find("near-members")
    kept = find("exact-kept").pieces if after_exact else no_pieces("exact-kept")

    pairs = find("near-pairs")
    candidates = {
        name: NearCandidates(number, parts.names, keys.pieces, pairs)
        for number, name in enumerate(ranges)
    }
    yield Pass("near-candidates", candidates)
    yield from parts.bundles("near-pairs")

    labels = find("near-labels")
    yield Pass("near-union", {_ONE: NearUnion(sketch, pairs.pieces, labels)})
    yield from parts.bundles("near-labels")

    senders = {
        name: NearMembers(
            name, number, number in parts.compared, sketch, keys, labels.pieces, members
        )
        for number, name in enumerate(parts.names)
    }
    yield Pass("near-members", senders)
    yield from parts.bundles("near-members")

    clusters = find("near-clusters")
    dropped = find("near-dropped")
    resolving = {
        name: NearResolve(number, sketch, config.verify, members.pieces, clusters, dropped)
        for number, name in enumerate(ranges)
    }
    yield Pass("near-resolve", resolving)
    yield from parts.bundles("near-clusters")
    yield from parts.bundles("near-dropped")

    drops = find("near-drops")
    writing = {
        name: NearClusters(number, clusters.pieces, dropped.pieces, kept, drops)
        for number, name in enumerate(ranges)
    }
    yield Pass("near-clusters", writing)
    yield from parts.bundles("near-drops")
