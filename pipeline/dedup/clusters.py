"""Clusters of near-duplicates: components of documents that share band keys, and what each keeps.

    near-candidates  per range of keys    documents that share a key become edges
    ... large, small per range of nodes   edges become stars, see `components`
    near-labels      per range of nodes   the component of each document, to its part
    near-members     per part             documents, to the range of their component
    near-resolve     per range            whole components are split and decided
    near-clusters    per range of uids    clusters are written, drops go to the parts

A node is a document: part << 32 | row. Memory of a unit is bounded by one key, or one component.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool, UInt64
from clozeline.pipeline.dedup.components import (
    connect_nodes,
    read_edges,
    send_rows,
    send_stars,
)
from clozeline.pipeline.dedup.config import NearConfig
from clozeline.pipeline.dedup.near import (
    KEY_ROW,
    NEAR_VERSION,
    document_schema,
    read_band_keys,
    read_sketches,
)
from clozeline.pipeline.dedup.parts import (
    CLUSTER,
    COPY,
    DROP,
    DedupCounts,
    DuplicateCounts,
    Parts,
    RangePass,
    Schema,
    choose_kept,
    find_hash_bounds,
    find_number_bounds,
    locate_keys,
    pack_rows,
    read_in_batches,
    read_numbered_rows,
    read_rows,
    smallest_uids,
    write_clusters,
    write_rows,
)
from clozeline.pipeline.dedup.representatives import (
    MOST_ROUNDS,
    choose_representatives,
    estimate_similarities,
    find_close,
    find_shared,
    star_edges,
)
from clozeline.pipeline.execution.shuffle import Shuffle
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import KnownRecords, Output, total_counts

MOST_MEMBERS: Final = 1 << 20
"""Maximum number of documents of a component that one process holds with their sketches and keys.
Of a larger one, members that are not close to its representative return to the candidates."""

_NODE_KEY: Final = (("key", "<u8"), ("node", "<u8"))
_LABEL: Final = (("row", "<u4"), ("component", "<u8"), ("large", "?"))
"""Row of a document of a part: its component, and whether this exceeds MOST_MEMBERS."""
_DECIDED: Final = (
    ("node", "<u8"),
    ("uid", "S16"),
    ("center", "<u8"),
    ("kept", "S16"),
    ("similarity", "<f4"),
)
"""Row of a decided document: itself, and the node and uid of the document kept instead of it."""
_PART_DROP: Final = (*DROP, ("part", "<u4"))


@dataclass
class _RoundPass(RangePass):
    """A pass over ranges in a round of splitting components, which ends its name."""

    parts: Parts
    config: NearConfig
    round: int
    name: str = field(init=False)
    units: int = field(init=False)
    TITLE: ClassVar[str]
    SENDS: ClassVar[tuple[str, ...]]
    """shuffles that the pass writes"""

    def __post_init__(self) -> None:
        self.name = f"{self.TITLE}-{self.round:02d}"
        self.units = self.parts.ranges

    def shuffle(self, name: str) -> Shuffle:
        """Return a shuffle of this round."""
        return self.parts.shuffle(name, self.round)

    def send(
        self, output: Output, unit: int, name: str, rows: NDArray[Any], bounds: Sequence[int]
    ) -> None:
        """Write the sorted rows of a unit for each destination of a shuffle."""
        write_rows(output, self.shuffle(name), self.unit_name(unit), rows, bounds)

    def bundled(self) -> Iterator[Pass[DedupCounts]]:
        """Yield this pass, and those that bundle what it sends."""
        yield self
        for name in self.SENDS:
            yield from self.shuffle(name).passes(self.parts.folder)


@dataclass
class NearCandidates(_RoundPass):
    """Per range of band keys: join the documents that share a key by edges."""

    TITLE: ClassVar[str] = "near-candidates"
    SENDS: ClassVar[tuple[str, ...]] = ("near-edges",)

    def options(self, unit: int) -> Mapping[str, Any]:
        return {"version": NEAR_VERSION}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        parts = self.parts
        if self.round:
            return {"left": parts.digest_pieces("near-left", known, unit, self.round - 1)}
        return {"signatures": parts.digest_files("near-keys", known)}

    def run(self, unit: int, output: Output) -> DedupCounts:
        keys, nodes = self._read_keys(unit)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        shared = find_shared(keys)
        left, right = star_edges(keys[shared], nodes[order][shared])
        send_stars(output, self.shuffle("near-edges"), self.unit_name(unit), left, right)
        if self.round:
            return {}
        return {"near": {"compared_keys": len(keys), "candidates": int(shared.sum())}}

    def _read_keys(self, unit: int) -> tuple[UInt64, UInt64]:
        """Return keys and nodes: all, or those that an earlier round left."""
        folder = self.parts.folder
        if self.round:
            left = self.parts.shuffle("near-left", self.round - 1)
            rows = read_rows(folder, left, unit, _NODE_KEY)
            return rows["key"], rows["node"]
        rows, part = read_numbered_rows(folder, self.parts.shuffle("near-keys"), unit, KEY_ROW)
        return rows["key"], part.astype(np.uint64) << np.uint64(32) | rows["row"]


@dataclass
class NearLabels(_RoundPass):
    """Per range of nodes: send the component of each document to its part."""

    TITLE: ClassVar[str] = "near-labels"
    SENDS: ClassVar[tuple[str, ...]] = ("near-labels",)
    stars: Shuffle = field(kw_only=True)

    def options(self, unit: int) -> Mapping[str, Any]:
        return {"version": NEAR_VERSION, "most": MOST_MEMBERS, "parts": self.parts.units}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return {"stars": self.stars.digest(self.parts.folder, known, unit)}

    def run(self, unit: int, output: Output) -> DedupCounts:
        edges = read_edges(self.parts.folder, self.stars, unit)
        edges = edges[edges["other"] > edges["node"]]
        centers = edges["node"]
        components, sizes = np.unique(centers, return_counts=True)
        large = sizes >= MOST_MEMBERS

        nodes = np.concatenate([components, edges["other"]])
        columns = {
            "row": nodes.astype(np.uint32),
            "component": np.concatenate([components, centers]),
            "large": np.concatenate([large, np.repeat(large, sizes)]),
        }
        order = np.argsort(nodes)
        bounds = find_number_bounds(nodes[order] >> np.uint64(32), self.parts.units)
        self.send(output, unit, "near-labels", pack_rows(_LABEL, columns)[order], bounds)
        counts: DuplicateCounts = {"labeled": len(nodes)}
        return {"near": counts if self.round else counts | {"members": len(nodes)}}


def _member_schema(config: NearConfig) -> Schema:
    return (
        ("component", "<u8"),
        ("large", "?"),
        ("node", "<u8"),
        *document_schema(config),
        ("keys", f"({config.bands},)<u8"),
    )


@dataclass
class NearMembers(_RoundPass):
    """Per part: send sketches and band keys of documents to the range of their component."""

    TITLE: ClassVar[str] = "near-members"
    SENDS: ClassVar[tuple[str, ...]] = ("near-members",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.units = self.parts.units

    def unit_name(self, unit: int) -> str:
        return self.parts.names[unit]

    def options(self, unit: int) -> Mapping[str, Any]:
        return {"version": NEAR_VERSION}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        folder = self.parts.folder
        return {
            "number of the part": str(unit),
            "labels": self.parts.digest_pieces("near-labels", known, unit, self.round),
            "signatures": known.digest(folder, "near-signatures", self.unit_name(unit)),
        }

    def run(self, unit: int, output: Output) -> DedupCounts:
        folder = self.parts.folder
        labels = read_rows(folder, self.shuffle("near-labels"), unit, _LABEL)
        labels = labels[np.argsort(labels["row"])]
        chosen = labels["row"]
        name = self.unit_name(unit)
        documents = read_sketches(folder, name, self.config)
        is_chosen = np.zeros(len(documents), bool)
        is_chosen[chosen] = True
        file = self.parts.shuffle("near-keys").file(name)
        keys = read_band_keys(folder, file, is_chosen, self.config.bands)

        documents = documents[chosen]
        columns = {name: documents[name] for name, _ in document_schema(self.config)}
        columns |= {"component": labels["component"], "large": labels["large"]}
        columns |= {"node": np.uint64(unit << 32) | chosen, "keys": keys}
        rows = pack_rows(_member_schema(self.config), columns)
        send_rows(output, self.shuffle("near-members"), name, labels["component"], rows)
        return {}


@dataclass
class NearResolve(_RoundPass):
    """Per range of components: choose the representatives, see `choose_representatives`.

    The first round reads members in batches, and holds only representatives and what is decided.
    Pending members of large components return to the candidates by their keys.
    """

    TITLE: ClassVar[str] = "near-resolve"
    SENDS: ClassVar[tuple[str, ...]] = ("near-clusters", "near-dropped", "near-left")

    def options(self, unit: int) -> Mapping[str, Any]:
        rounds = MOST_ROUNDS - self.round
        return {"version": NEAR_VERSION, "verify": self.config.verify, "rounds": rounds}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return {"members": self.parts.digest_pieces("near-members", known, unit, self.round)}

    def run(self, unit: int, output: Output) -> DedupCounts:
        best = self._choose_best(unit)
        decided: list[NDArray[Any]] = []
        pending = [best[:0]]
        compared = 0
        undecided = 0

        with self.shuffle("near-left").write(output, self.unit_name(unit)) as writer:
            for batch in self._read_members(unit):
                rows, is_close = self._compare(batch, best)
                compared += len(batch)
                decided.append(rows)
                left = batch[~is_close]
                pending.append(left[~left["large"]])
                left = left[left["large"]]
                undecided += len(left)
                if len(left):
                    for piece in self._sort_keys(left):
                        writer.add([piece])

        decided.append(self._split(np.concatenate(pending)))
        clusters, drops = self._find_clusters(np.concatenate(decided))
        for name, rows, key in (
            ("near-clusters", clusters, "cluster"),
            ("near-dropped", drops, "uid"),
        ):
            rows = rows[np.argsort(rows[key], kind="stable")]
            self.send(output, unit, name, rows, find_hash_bounds(rows[key], self.parts.ranges))
        return {
            "near": {
                "compared": compared,
                "undecided": undecided,
                "clusters": len(clusters) - len(drops),
                "dropped": len(drops),
            }
        }

    def _read_members(self, unit: int) -> Iterator[NDArray[Any]]:
        schema = _member_schema(self.config)
        return read_in_batches(self.parts.folder, self.shuffle("near-members"), unit, schema)

    def _choose_best(self, unit: int) -> NDArray[Any]:
        """Return the representative of each component, sorted by component."""
        best = np.empty(0, np.dtype(list(_member_schema(self.config))))
        for batch in self._read_members(unit):
            rows = np.concatenate([best, batch])
            best = rows[np.unique(choose_kept(rows["component"], rows["priority"], rows["uid"]))]
        return best[np.argsort(best["component"])]

    def _compare(self, batch: NDArray[Any], best: NDArray[Any]) -> tuple[NDArray[Any], Bool]:
        """Return members [n] as decided rows if they are close, and which are, bool [n]."""
        index = np.searchsorted(best["component"], batch["component"])
        sketches = np.concatenate([best["sketch"], batch["sketch"]])
        rows = len(best) + np.arange(len(batch))
        similarity = estimate_similarities(sketches, rows, index)
        centers = best["node"][index]
        is_close = find_close(
            batch["priority"], centers == batch["node"], similarity, self.config.verify
        )
        columns = {
            "node": batch["node"],
            "uid": batch["uid"],
            "center": centers,
            "kept": best["uid"][index],
            "similarity": similarity,
        }
        return pack_rows(_DECIDED, columns)[is_close], is_close

    def _sort_keys(self, members: NDArray[Any]) -> Iterator[bytes]:
        """Yield the keys of members for each range of keys."""
        bands = self.config.bands
        columns = {"key": members["keys"].reshape(-1), "node": np.repeat(members["node"], bands)}
        rows = pack_rows(_NODE_KEY, columns)[np.argsort(columns["key"], kind="stable")]
        bounds = find_hash_bounds(rows["key"], self.parts.ranges)
        for first, last in pairwise(bounds):
            yield rows[first:last].tobytes()

    def _split(self, members: NDArray[Any]) -> NDArray[Any]:
        """Return the pending members of small components as decided rows."""
        keys = members["keys"].reshape(-1)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        shared = find_shared(keys)
        holders = (order // self.config.bands)[shared]
        uids = np.ascontiguousarray(members["uid"])
        priority = np.ascontiguousarray(members["priority"])
        rounds = MOST_ROUNDS - self.round - 1
        kept, similarity = choose_representatives(
            keys[shared], holders, uids, priority, members["sketch"], self.config.verify, rounds
        )
        nodes = members["node"]
        columns = {"node": nodes, "uid": uids, "center": nodes[kept], "kept": uids[kept]}
        return pack_rows(_DECIDED, columns | {"similarity": similarity})

    @staticmethod
    def _find_clusters(decided: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the rows of clusters, and the dropped documents."""
        is_dropped = decided["node"] != decided["center"]
        members = decided[np.isin(decided["center"], decided["center"][is_dropped])]
        uids = np.ascontiguousarray(members["uid"])
        columns = {name: members[name] for name in ("uid", "similarity")}
        columns["cluster"] = uids[smallest_uids(members["center"], uids)]
        columns["kept"] = members["node"] == members["center"]
        drops = decided[is_dropped]
        part = (drops["node"] >> np.uint64(32)).astype(np.uint32)
        dropped = {"uid": drops["uid"], "kept": drops["kept"], "part": part}
        return pack_rows(CLUSTER, columns), pack_rows(_PART_DROP, dropped)


@dataclass
class NearClusters(RangePass):
    """Per range of uids: write clusters, and send drops to the parts that name the document."""

    parts: Parts
    rounds: int
    after_exact: bool
    name: str = "near-clusters"
    units: int = field(init=False)

    def __post_init__(self) -> None:
        self.units = self.parts.ranges

    def options(self, unit: int) -> Mapping[str, Any]:
        return {"version": NEAR_VERSION, "parts": self.parts.units}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        digests = {
            f"{name} {number}": self.parts.digest_pieces(name, known, unit, number)
            for name, number in product(("near-clusters", "near-dropped"), range(self.rounds))
        }
        if self.after_exact:
            digests["exact copies"] = self.parts.digest_pieces("exact-kept", known, unit)
        return digests

    def run(self, unit: int, output: Output) -> DedupCounts:
        with output.file(f"clusters/near/{unit:06d}.arrow") as path:
            write_clusters(path, self._read_rounds("near-clusters", unit, CLUSTER))

        drops = self._read_rounds("near-dropped", unit, _PART_DROP)
        if self.after_exact:
            # copies of a dropped document, which exact dedup removed, name the document kept
            # instead
            drops = drops[np.argsort(drops["uid"])]
            copies = read_rows(self.parts.folder, self.parts.shuffle("exact-kept"), unit, COPY)
            index, present = locate_keys(drops["uid"], copies["uid"])
            named = drops[index[present]]
            named["part"] = copies["part"][present]
            drops = np.concatenate([drops, named])

        drops = drops[np.lexsort((drops["uid"], drops["part"]))]
        bounds = find_number_bounds(drops["part"], self.parts.units)
        rows = pack_rows(DROP, {name: drops[name] for name, _ in DROP})
        write_rows(output, self.parts.shuffle("near-drops"), self.unit_name(unit), rows, bounds)
        return {}

    def _read_rounds(self, name: str, unit: int, schema: Schema) -> NDArray[Any]:
        shuffles = [self.parts.shuffle(name, number) for number in range(self.rounds)]
        return np.concatenate(
            [read_rows(self.parts.folder, shuffle, unit, schema) for shuffle in shuffles]
        )


def near_passes(
    parts: Parts, config: NearConfig, after_exact: bool
) -> Generator[Pass[DedupCounts], None, None]:
    """Yield the passes that find clusters, once `near-keys` is complete.

    A pass must be complete before the next is requested. Otherwise, its earlier counts say what is
    likely to follow.
    """
    folder = parts.folder
    rounds = 0
    undecided = 1

    while undecided and rounds < MOST_ROUNDS:
        candidates = NearCandidates(parts, config, rounds)
        yield from candidates.bundled()
        stars = yield from connect_nodes(folder, candidates.shuffle("near-edges"))
        yield from NearLabels(parts, config, rounds, stars=stars).bundled()
        yield from NearMembers(parts, config, rounds).bundled()
        resolve = NearResolve(parts, config, rounds)
        yield from resolve.bundled()
        undecided = total_counts(folder, resolve.name).get("near", {}).get("undecided", 0)
        rounds += 1

    yield NearClusters(parts, rounds, after_exact)
    yield from parts.shuffle("near-drops").passes(folder)
