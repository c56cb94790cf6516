"""Passes of near-duplicate removal: signatures per part, candidate groups per hash range, clusters once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.dedup.clusters import resolve, smallest_uids
from pipeline.dedup.columns import range_slice, uid_column, write_columns
from pipeline.dedup.counts import DedupCounts
from pipeline.dedup.keep import KEEP_COLUMNS, Keep, merits
from pipeline.dedup.near import NEAR_VERSION, MinHash, sketch
from pipeline.dedup.parts import Parts, write_clusters
from pipeline.documents.files import read_batches
from pipeline.execution.stage import Pass
from pipeline.execution.unit_record import Output
from pipeline.text.normal_form import MATCH_VERSION

__all__ = ["NearCandidates", "NearClusters", "NearSignatures", "SignatureFacts"]

_COLUMNS = ("uid", "text", "target_text", *KEEP_COLUMNS)


@dataclass(frozen=True, slots=True)
class SignatureFacts:
    """Facts that two signatures must share to be comparable; every file of signatures holds them."""

    ngram: int
    bands: int
    rows: int
    seed: int

    def minhash(self) -> MinHash:
        """Return the hash functions."""
        return MinHash(self.ngram, self.bands, self.rows, self.seed)

    def plain(self) -> dict[str, Any]:
        """Return plain data, with the versions of the text form and of the hashes."""
        versions = {"match_version": MATCH_VERSION, "near_version": NEAR_VERSION}
        return {"ngram": self.ngram, "bands": self.bands, "rows": self.rows, "seed": self.seed, **versions}


@dataclass
class NearSignatures(Pass[DedupCounts]):
    """Per part: band keys (sorted), sketches, uids and merits of the documents that exact dedup left."""

    units: int
    parts: Parts
    facts: SignatureFacts
    keep: Keep
    after_exact: bool
    name: str = "near-signatures"

    def run(self, unit: int, output: Output) -> DedupCounts:
        """Write the signatures of a part."""
        minhash = self.facts.minhash()
        functions = self.facts.bands * self.facts.rows
        keys, sketches = [np.empty((0, self.facts.bands), np.uint64)], [np.empty((0, functions), np.uint16)]
        uids, merit = [uid_column([])], [np.empty(0, dtype=np.int64)]
        for batch in self._survivors(unit):
            signatures = [minhash.signature(text) for text in _both_sides(batch)]
            keys.append(np.stack([minhash.band_keys(signature) for signature in signatures]))
            sketches.append(sketch(np.stack(signatures)))
            uids.append(uid_column(batch.column("uid").to_pylist()))
            merit.append(merits(batch, self.keep))
        flat = np.concatenate(keys).reshape(-1)
        rows = np.repeat(np.arange(len(flat) // self.facts.bands, dtype=np.uint32), self.facts.bands)
        order = np.lexsort((rows, flat))
        documents = {
            "uid": np.concatenate(uids),
            "merit": np.concatenate(merit),
            "sketch": np.concatenate(sketches),
        }
        with output.file(self.parts.temporary("near-keys", unit)) as path:
            write_columns(path, {"key": flat[order], "row": rows[order]}, self.facts.plain())
        with output.file(self.parts.temporary("near-documents", unit)) as path:
            write_columns(path, documents, self.facts.plain())
        return {"signatures": len(documents["uid"])}

    def _survivors(self, unit: int) -> Iterator[pa.RecordBatch]:
        dropped = self.parts.exact_drops(unit)[0] if self.after_exact else uid_column([])
        for batch in read_batches(self.parts.source(unit), _COLUMNS):
            stays = ~np.isin(uid_column(batch.column("uid").to_pylist()), dropped)
            remaining = batch.filter(pa.array(stays))
            if len(remaining):
                yield remaining


def _both_sides(batch: pa.RecordBatch) -> list[str]:
    pairs = zip(batch.column("text").to_pylist(), batch.column("target_text").to_pylist(), strict=True)
    return [text if target is None else f"{text}\n{target}" for text, target in pairs]


@dataclass
class NearCandidates(Pass[DedupCounts]):
    """Per range of band keys: the keys that two or more documents share, with those documents."""

    units: int
    parts: Parts
    facts: SignatureFacts
    name: str = "near-candidates"

    def run(self, unit: int, output: Output) -> DedupCounts:
        """Write the candidate groups of a range."""
        keys, parts, rows = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)], [np.empty(0, np.uint32)]
        for number in range(self.parts.units):
            run = self.parts.read("near-keys", number, self.facts.plain())
            inside = range_slice(run["key"], unit, self.parts.ranges)
            keys.append(run["key"][inside])
            rows.append(run["row"][inside])
            parts.append(np.full(inside.stop - inside.start, number, dtype=np.uint32))
        key, part, row = np.concatenate(keys), np.concatenate(parts), np.concatenate(rows)
        order = np.argsort(key, kind="stable")
        equal = key[order][1:] == key[order][:-1]
        shared = np.zeros(len(order), dtype=bool)
        shared[1:] |= equal
        shared[:-1] |= equal
        chosen = order[shared]
        with output.file(self.parts.temporary("near-groups", unit)) as path:
            write_columns(path, {"key": key[chosen], "part": part[chosen], "row": row[chosen]})
        return {"near": {"candidates": len(chosen)}}


@dataclass
class NearClusters(Pass[DedupCounts]):
    """Once: components of the candidates, checked against their representatives; clusters and drops."""

    units: int
    parts: Parts
    facts: SignatureFacts
    verify: float | None
    name: str = "near-clusters"

    def run(self, unit: int, output: Output) -> DedupCounts:
        """Write all clusters, by range of their smallest uid, and the drops, sorted by uid."""
        groups = [self.parts.read("near-groups", index) for index in range(self.parts.ranges)]
        key, part, row = (np.concatenate([group[name] for group in groups]) for name in ("key", "part", "row"))
        places, nodes = np.unique(part.astype(np.uint64) << np.uint64(32) | row, return_inverse=True)
        uids, merit, sketches = self._documents(places)
        found = resolve(key, nodes, uids, merit, sketches, self.verify)
        dropped = np.flatnonzero(found.kept != np.arange(len(uids)))
        order = dropped[np.argsort(uids[dropped])]
        with output.file(self.parts.temporary("near-drops", 0)) as path:
            write_columns(path, {"uid": uids[order], "kept": uids[found.kept[order]]})
        members = np.flatnonzero(np.isin(found.kept, found.kept[dropped]))
        names = uids[smallest_uids(found.kept, uids)]
        for index in range(self.parts.ranges):
            self._write_range(output, index, names, uids, found.kept, found.similarity, members)
        clusters = len(members) - len(dropped)
        return {"near": {"members": len(uids), "clusters": clusters, "dropped": len(dropped)}}

    def _documents(
        self, places: NDArray[np.uint64]
    ) -> tuple[NDArray[np.bytes_], NDArray[np.int64], NDArray[np.uint16]]:
        uids, merit = [uid_column([])], [np.empty(0, dtype=np.int64)]
        sketches = [np.empty((0, self.facts.bands * self.facts.rows), np.uint16)]
        parts = (places >> np.uint64(32)).astype(np.int64)
        for number in np.unique(parts).tolist():
            rows = (places[parts == number] & np.uint64(0xFFFFFFFF)).astype(np.int64)
            documents = self.parts.read("near-documents", number, self.facts.plain())
            uids.append(documents["uid"][rows])
            merit.append(documents["merit"][rows])
            sketches.append(documents["sketch"][rows])
        return np.concatenate(uids), np.concatenate(merit), np.concatenate(sketches)

    def _write_range(
        self,
        output: Output,
        index: int,
        names: NDArray[np.bytes_],
        uids: NDArray[np.bytes_],
        kept: NDArray[np.int64],
        similarity: NDArray[np.float32],
        members: NDArray[np.int64],
    ) -> None:
        by_name = members[np.argsort(names[members], kind="stable")]
        inside = by_name[range_slice(names[by_name], index, self.parts.ranges)]
        with output.file(f"clusters/near/{index:06d}.arrow") as path:
            write_clusters(path, names[inside], uids[inside], kept[inside] == inside, similarity[inside])
