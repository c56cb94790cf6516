"""Clusters of near-duplicates: components of documents that share band keys, and what each keeps.

    near-candidates  per range of keys    documents that share a key become pairs
    near-union       one unit             pairs are joined; components, to the parts
    near-members     per part             documents, to the range of their component
    near-resolve     per range            components are split and decided
    near-clusters    per range of uids    clusters are written, drops go to the parts

A node is a document: part << 32 | row.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64, UInt64
from clozeline.pipeline.dedup.components import Components
from clozeline.pipeline.dedup.config import NearConfig
from clozeline.pipeline.dedup.near import (
    KEY_ROW,
    NEAR_VERSION,
    count_documents,
    document_schema,
    read_band_keys,
    read_sketches,
)
from clozeline.pipeline.dedup.parts import (
    CLUSTER,
    COMPARED_PRIORITY,
    COPY,
    DROP,
    DedupCounts,
    Parts,
    RangePass,
    Schema,
    Uids,
    build_clusters,
    find_hash_bounds,
    find_number_bounds,
    locate_keys,
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
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import TEMPORARY, KnownRecords, Output
from clozeline.seeding import below, mix

_PAIR: Final = (("left", "<u8"), ("right", "<u8"))
"""Row of two nodes that share a key."""
_LABEL: Final = (("row", "<u4"), ("component", "<u8"))
"""Row of a document of a part: its component, which is the smallest node of it."""
_PART_DROP: Final = (*DROP, ("part", "<u4"))


@dataclass
class NearCandidates(RangePass):
    """Per range of band keys: pair the documents that share a key."""

    units: int
    parts: Parts
    name: str = "near-candidates"

    def options(self, unit: int) -> Mapping[str, Any]:
        return {"version": NEAR_VERSION}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return {"signatures": self.parts.digest_files("near-keys", known)}

    def run(self, unit: int, output: Output) -> DedupCounts:
        parts = self.parts
        rows, part = read_numbered_rows(parts.folder, parts.shuffle("near-keys"), unit, KEY_ROW)
        shared = order_shared(rows["key"])
        nodes = part[shared].astype(np.uint64) << np.uint64(32) | rows["row"][shared]
        left, right = star_edges(rows["key"][shared], nodes)
        pairs = pack_rows(_PAIR, {"left": left, "right": right})
        write_rows(
            output, parts.shuffle("near-pairs"), self.unit_name(unit), pairs, [0, len(pairs)]
        )
        return {"near": {"candidates": len(shared)}}


@dataclass
class NearUnion(Pass[DedupCounts]):
    """One unit: join the pairs while they are read, and send each part its components.

    It holds 4 bytes for each document that has a signature, see `Components`.
    """

    parts: Parts
    config: NearConfig
    name: str = "near-union"
    units: int = 1

    def options(self, unit: int) -> Mapping[str, Any]:
        return {"version": NEAR_VERSION, "parts": self.parts.units}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return {"pairs": self.parts.digest_pieces("near-pairs", known, unit)}

    def run(self, unit: int, output: Output) -> DedupCounts:
        parts = self.parts
        # documents are numbered from 1, part by part
        sizes = [count_documents(parts.folder, name, self.config) for name in parts.names]
        ends = np.cumsum(sizes, dtype=np.uint64)
        before = ends - np.array(sizes, np.uint64)
        components = Components(sum(sizes), output.folder / TEMPORARY)
        for _, piece in parts.shuffle("near-pairs").read(parts.folder, unit):
            pairs = np.frombuffer(piece, np.dtype(list(_PAIR)))
            components.join(*(_number(pairs[side], before) for side in ("left", "right")))

        roots = components.roots()
        members = 0
        with parts.shuffle("near-labels").write(output, self.unit_name(unit)) as writer:
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


def _member_schema(config: NearConfig) -> Schema:
    return (("part", "<u4"), *document_schema(config), ("keys", f"({config.bands},)<u8"))


@dataclass
class NearMembers(Pass[DedupCounts]):
    """Per part: send sketches and band keys of documents to the range of their component."""

    units: int
    parts: Parts
    config: NearConfig
    name: str = "near-members"

    def unit_name(self, unit: int) -> str:
        return self.parts.names[unit]

    def options(self, unit: int) -> Mapping[str, Any]:
        is_compared = unit in self.parts.compared
        return {
            "version": NEAR_VERSION,
            "ranges": self.parts.ranges,
            "is_compared": is_compared,
        }

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return {
            "number of the part": str(unit),
            "labels": self.parts.digest_pieces("near-labels", known, unit),
            "signatures": known.digest(self.parts.folder, "near-signatures", self.unit_name(unit)),
        }

    def run(self, unit: int, output: Output) -> DedupCounts:
        parts = self.parts
        name = self.unit_name(unit)
        labels = read_rows(parts.folder, parts.shuffle("near-labels"), unit, _LABEL)
        documents = read_sketches(parts.folder, name, self.config)
        is_chosen = np.zeros(len(documents), bool)
        is_chosen[labels["row"]] = True
        file = parts.shuffle("near-keys").file(name)
        columns = {"keys": read_band_keys(parts.folder, file, is_chosen, self.config.bands)}
        documents = documents[is_chosen]
        columns |= {name: documents[name] for name, _ in document_schema(self.config)}
        columns["part"] = np.full(len(documents), unit, np.uint32)
        if unit in parts.compared:
            columns["priority"] = np.full(len(documents), COMPARED_PRIORITY)
        members = pack_rows(_member_schema(self.config), columns)

        # sorting 16-bit numbers is fast
        ranges = below(mix(labels["component"]) >> np.uint64(32), parts.ranges).astype(np.uint16)
        order = np.argsort(ranges, kind="stable")
        bounds = find_number_bounds(ranges[order], parts.ranges)
        write_rows(output, parts.shuffle("near-members"), name, members[order], bounds)
        return {}


@dataclass
class NearResolve(RangePass):
    """Per range of components: choose the representatives, see `choose_representatives`."""

    units: int
    parts: Parts
    config: NearConfig
    name: str = "near-resolve"

    def options(self, unit: int) -> Mapping[str, Any]:
        return {"version": NEAR_VERSION, "verify": self.config.verify}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return {"members": self.parts.digest_pieces("near-members", known, unit)}

    def run(self, unit: int, output: Output) -> DedupCounts:
        parts = self.parts
        schema = _member_schema(self.config)
        members = read_rows(parts.folder, parts.shuffle("near-members"), unit, schema)
        uids = np.ascontiguousarray(members["uid"])
        kept, similarity = self._choose(members, uids)
        stays = kept == np.arange(len(kept))
        dropped = np.flatnonzero(~stays)
        clusters = build_clusters(kept, uids, similarity, dropped, stays)
        drops = {"uid": uids[dropped], "kept": uids[kept[dropped]]}
        drops["part"] = members["part"][dropped]
        for name, rows, key in (
            ("near-clusters", clusters, "cluster"),
            ("near-dropped", pack_rows(_PART_DROP, drops), "uid"),
        ):
            rows = rows[np.argsort(rows[key], kind="stable")]
            bounds = find_hash_bounds(rows[key], parts.ranges)
            write_rows(output, parts.shuffle(name), self.unit_name(unit), rows, bounds)
        return {"near": {"clusters": len(clusters) - len(dropped)}}

    def _choose(self, members: NDArray[Any], uids: Uids) -> tuple[Int64, NDArray[np.float32]]:
        keys = members["keys"].reshape(-1)
        shared = order_shared(keys)
        return choose_representatives(
            keys[shared],
            shared // self.config.bands,
            uids,
            np.ascontiguousarray(members["priority"]),
            members["sketch"],
            self.config.verify,
        )


@dataclass
class NearClusters(RangePass):
    """Per range of uids: write clusters, and send drops to the parts that name the document."""

    units: int
    parts: Parts
    after_exact: bool
    name: str = "near-clusters"

    def options(self, unit: int) -> Mapping[str, Any]:
        return {"version": NEAR_VERSION, "parts": self.parts.units}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        names = ["near-clusters", "near-dropped", *["exact-kept"] * self.after_exact]
        return {name: self.parts.digest_pieces(name, known, unit) for name in names}

    def run(self, unit: int, output: Output) -> DedupCounts:
        parts = self.parts
        with output.file(f"clusters/near/{unit:06d}.arrow") as path:
            clusters = parts.shuffle("near-clusters")
            write_clusters(path, read_rows(parts.folder, clusters, unit, CLUSTER))

        drops = read_rows(parts.folder, parts.shuffle("near-dropped"), unit, _PART_DROP)
        if self.after_exact:
            # copies of a dropped document, which exact dedup removed, name the document kept
            # instead
            drops = drops[np.argsort(drops["uid"])]
            copies = read_rows(parts.folder, parts.shuffle("exact-kept"), unit, COPY)
            index, present = locate_keys(drops["uid"], copies["uid"])
            named = drops[index[present]]
            named["part"] = copies["part"][present]
            drops = np.concatenate([drops, named])

        drops = drops[np.lexsort((drops["uid"], drops["part"]))]
        bounds = find_number_bounds(drops["part"], parts.units)
        rows = pack_rows(DROP, {name: drops[name] for name, _ in DROP})
        write_rows(output, parts.shuffle("near-drops"), self.unit_name(unit), rows, bounds)
        return {}


def near_passes(parts: Parts, config: NearConfig, after_exact: bool) -> Iterator[Pass[DedupCounts]]:
    """Yield the passes that find clusters, once `near-keys` is complete."""
    yield NearCandidates(parts.ranges, parts)
    yield from parts.bundles("near-pairs")
    yield NearUnion(parts, config)
    yield from parts.bundles("near-labels")
    yield NearMembers(parts.units, parts, config)
    yield from parts.bundles("near-members")
    yield NearResolve(parts.ranges, parts, config)
    yield from parts.bundles("near-clusters")
    yield from parts.bundles("near-dropped")
    yield NearClusters(parts.ranges, parts, after_exact)
    yield from parts.bundles("near-drops")
