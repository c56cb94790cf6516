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
from typing import Final

import numpy as np

from clozeline.arrays import UInt64
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
    build_clusters,
    clusters_name,
    pack_rows,
    read_numbered_rows,
    read_rows,
    send_by_hash,
    send_by_number,
    write_clusters,
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

    VERSION = NEAR_VERSION
    name: str
    parts: tuple[str, ...]
    """names of the parts, whose numbers are those of the sources of keys"""
    keys: Pieces
    pairs: Shuffle

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        rows, part = read_numbered_rows(inputs, self.keys, self.name, KEY_ROW)
        shared = order_shared(rows["key"])
        nodes = part[shared].astype(np.uint64) << np.uint64(32) | rows["row"][shared]
        left, right = star_edges(rows["key"][shared], nodes)
        with self.pairs.write(output, self.name) as writer:
            writer.add([pack_rows(_PAIR, {"left": left, "right": right}).tobytes()])
        return {"near": {"candidates": len(shared)}}


@dataclass(frozen=True)
class NearUnion(Unit[DedupCounts]):
    """One unit: join the pairs while they are read, and send each part its components.

    It holds 4 bytes for each document that has a signature, see `Components`.
    """

    VERSION = NEAR_VERSION
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

    VERSION = NEAR_VERSION
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
        ranges = below(mix(labels["component"]) >> np.uint64(32), len(self.members.destinations))
        # sorting 16-bit numbers is fast
        send_by_number(output, self.members, name, members, ranges.astype(np.uint16))
        return {}


@dataclass(frozen=True)
class NearResolve(Unit[DedupCounts]):
    """Choose the representatives of a range of components, see `choose_representatives`."""

    VERSION = NEAR_VERSION
    name: str
    sketch: Sketch
    verify: float
    members: Pieces
    clusters: Shuffle
    dropped: Shuffle

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        members = read_rows(inputs, self.members, self.name, _member_schema(self.sketch))
        uids = np.ascontiguousarray(members["uid"])
        keys = members["keys"].reshape(-1)
        shared = order_shared(keys)
        kept, similarity = choose_representatives(
            keys[shared],
            shared // self.sketch.bands,
            uids,
            np.ascontiguousarray(members["priority"]),
            members["sketch"],
            self.verify,
        )
        stays = kept == np.arange(len(kept))
        dropped = np.flatnonzero(~stays)
        clusters = build_clusters(kept, uids, similarity, dropped, stays)
        columns = {"uid": uids[dropped], "kept": uids[kept[dropped]]}
        drops = pack_rows(_PART_DROP, columns | {"part": members["part"][dropped]})
        send_by_hash(output, self.clusters, self.name, clusters, clusters["cluster"])
        send_by_hash(output, self.dropped, self.name, drops, drops["uid"])
        return {"near": {"clusters": len(clusters) - len(dropped)}}


@dataclass(frozen=True)
class NearClusters(Unit[DedupCounts]):
    """Write the clusters of a range of uids, and send drops to the parts that name the document."""

    VERSION = NEAR_VERSION
    name: str
    clusters: Pieces
    dropped: Pieces
    kept: Pieces
    """copies of the documents that exact dedup kept"""
    drops: Shuffle
    """to all parts, whose numbers are in the drops"""

    def run(self, inputs: UnitInputs, output: Output) -> DedupCounts:
        name = self.name
        with output.file(clusters_name("near", name)) as path:
            write_clusters(path, read_rows(inputs, self.clusters, name, CLUSTER))

        drops = read_rows(inputs, self.dropped, name, _PART_DROP)
        copies = read_rows(inputs, self.kept, name, COPY)
        # copies of a dropped document, which exact dedup removed, name the document kept instead
        drops = drops[np.argsort(drops["uid"])]
        copies = copies[np.isin(copies["uid"], drops["uid"])]
        named = drops[np.searchsorted(drops["uid"], copies["uid"])]
        named["part"] = copies["part"]
        drops = np.concatenate([drops, named])

        rows = pack_rows(DROP, {column: drops[column] for column, _ in DROP})
        send_by_number(output, self.drops, name, rows, drops["part"], drops["uid"])
        return {}


def near_passes(parts: Parts, config: NearConfig) -> Iterator[Pass[DedupCounts]]:
    """Yield the passes that find clusters, once `near-signatures` is complete."""
    find = parts.shuffle
    sketch = Sketch(config.ngram, config.bands, config.rows)
    keys = find("near-keys")
    pairs = find("near-pairs")
    candidates = {
        name: NearCandidates(name, parts.names, keys.pieces, pairs) for name in parts.range_names
    }
    yield from parts.passes("near-candidates", candidates)

    labels = find("near-labels")
    yield from parts.passes("near-union", {_ONE: NearUnion(sketch, pairs.pieces, labels)})

    members = find("near-members")
    senders = {
        name: NearMembers(
            name, number, number in parts.compared, sketch, keys, labels.pieces, members
        )
        for number, name in enumerate(parts.names)
    }
    yield from parts.passes("near-members", senders)

    clusters = find("near-clusters")
    dropped = find("near-dropped")
    resolving = {
        name: NearResolve(name, sketch, config.verify, members.pieces, clusters, dropped)
        for name in parts.range_names
    }
    yield from parts.passes("near-resolve", resolving)

    drops = find("near-drops")
    kept = parts.pieces("exact-kept")
    writing = {
        name: NearClusters(name, clusters.pieces, dropped.pieces, kept, drops)
        for name in parts.range_names
    }
    yield from parts.passes("near-clusters", writing)
