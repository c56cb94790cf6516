"""The first passes of near-duplicate removal: signatures per part, candidates per range of band keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from clozeline.pipeline.dedup.columns import hash_bounds, read_rows, rows_of, uid_column, write_columns, write_rows
from clozeline.pipeline.dedup.component_passes import Levels, write_links
from clozeline.pipeline.dedup.contraction import contract
from clozeline.pipeline.dedup.counts import DedupCounts
from clozeline.pipeline.dedup.keep_rules import KEEP_COLUMNS, Keep, merits
from clozeline.pipeline.dedup.near import NEAR_VERSION, MinHash, sketch
from clozeline.pipeline.dedup.parts import Parts
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.ingest.documents.files import read_batches
from clozeline.pipeline.text.normal_form import MATCH_VERSION

_KEY: Final = (("key", "<u8"), ("part", "<u4"), ("row", "<u4"))
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
    """Per part: uids, merits, band keys and sketches of the documents that exact dedup left; and their keys, sorted."""

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
            "keys": flat.reshape(-1, self.facts.bands),
            "sketch": np.concatenate(sketches),
        }
        part = np.full(len(order), unit, np.uint32)
        keys_of = rows_of(_KEY, {"key": flat[order], "part": part, "row": rows[order]})
        write_rows(output, self.parts.near_keys, unit, keys_of, hash_bounds(flat[order], self.parts.ranges))
        with output.file(self.parts.temporary("near-documents", unit)) as path:
            write_columns(path, documents, self.facts.plain())
        return {"signatures": len(documents["uid"]), "near": {"keys": len(keys_of)}}

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
    """Per range of band keys: documents that share a key, joined as far as the range tells."""

    units: int
    parts: Parts
    name: str = "near-candidates"

    def run(self, unit: int, output: Output) -> DedupCounts:
        """Write the links of the documents of a range."""
        found = read_rows(self.parts.folder, self.parts.near_keys, unit, _KEY)
        key, part, row = (np.ascontiguousarray(found[name]) for name in ("key", "part", "row"))
        order = np.argsort(key, kind="stable")
        equal = key[order][1:] == key[order][:-1]
        shared = np.zeros(len(order), dtype=bool)
        shared[1:] |= equal
        shared[:-1] |= equal
        chosen = order[shared]
        nodes = part[chosen].astype(np.uint64) << np.uint64(32) | row[chosen]
        links = Levels.of(self.parts).links(1)
        sent = write_links(output, links, unit, contract(key[chosen], nodes, 0), by_part=True)
        return {"sent": sent, "near": {"compared_keys": len(key), "candidates": len(chosen)}}
