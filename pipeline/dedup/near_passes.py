"""The first passes of near-duplicate removal: compute signatures per part, find candidates per range of band keys."""

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from clozeline.pipeline.dedup.columns import hash_bounds, pack_rows, read_rows, uid_column, write_columns, write_rows
from clozeline.pipeline.dedup.component_passes import Levels, write_links
from clozeline.pipeline.dedup.config import Keep
from clozeline.pipeline.dedup.contraction import contract
from clozeline.pipeline.dedup.counts import DedupCounts
from clozeline.pipeline.dedup.keep_rules import KEEP_COLUMNS
from clozeline.pipeline.dedup.near import NEAR_VERSION, MinHash, sketch
from clozeline.pipeline.dedup.parts import Parts
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.ingest.documents.files import read_batches
from clozeline.pipeline.text.normal_form import MATCH_VERSION

_KEY: Final = (("key", "<u8"), ("part", "<u4"), ("row", "<u4"))
_COLUMNS = ("uid", "text", "target_text", *KEEP_COLUMNS)


@dataclass(frozen=True, slots=True)
class SignatureParameters:
    """Parameters that two signatures must share to be comparable; files of signatures store them."""

    ngram: int
    bands: int
    rows: int
    seed: int

    def plain(self) -> dict[str, Any]:
        """Return plain data, including the versions of the match form and of the hashes."""
        return {**asdict(self), "match_version": MATCH_VERSION, "near_version": NEAR_VERSION}


@dataclass
class NearSignatures(Pass[DedupCounts]):
    """Per part: write the signatures of the documents that exact dedup kept, and send their band keys to ranges."""

    units: int
    parts: Parts
    parameters: SignatureParameters
    keep: Keep
    after_exact: bool
    name: str = "near-signatures"

    def run(self, unit: int, output: Output) -> DedupCounts:
        minhash, bands = MinHash(**asdict(self.parameters)), self.parameters.bands
        keys, sketches = [np.empty((0, bands), np.uint64)], [np.empty((0, bands * minhash.rows), np.uint16)]
        uids, merit = [uid_column([])], [np.empty(0, dtype=np.int64)]
        dropped = self.parts.drops("exact-drops", unit)[0] if self.after_exact else uid_column([])
        for batch in read_batches(self.parts.source(unit), _COLUMNS):
            kept = ~np.isin(uid_column(batch.column("uid").to_pylist()), dropped)
            if not kept.any():
                continue
            batch = batch.filter(pa.array(kept))
            pairs = zip(batch.column("text").to_pylist(), batch.column("target_text").to_pylist(), strict=True)
            texts = [text if target is None else f"{text}\n{target}" for text, target in pairs]
            signatures = np.stack([minhash.signature(text) for text in texts])
            keys.append(minhash.band_keys(signatures))
            sketches.append(sketch(signatures))
            uids.append(uid_column(batch.column("uid").to_pylist()))
            merit.append(self.parts.merits(unit, batch, self.keep))
        # band keys [documents * bands], sorted by (key, row)
        flat = np.concatenate(keys).reshape(-1)
        rows = np.repeat(np.arange(len(flat) // bands, dtype=np.uint32), bands)
        order = np.lexsort((rows, flat))
        part = np.full(len(order), unit, np.uint32)
        key_rows = pack_rows(_KEY, {"key": flat[order], "part": part, "row": rows[order]})
        bounds = hash_bounds(flat[order], self.parts.ranges)
        write_rows(output, self.parts.exchange("near-keys"), unit, key_rows, bounds)
        documents = {"uid": np.concatenate(uids), "merit": np.concatenate(merit)}
        documents |= {"keys": flat.reshape(-1, bands), "sketch": np.concatenate(sketches)}
        with output.file(self.parts.temporary("near-documents", unit)) as path:
            write_columns(path, documents, self.parameters.plain())
        counts: DedupCounts = {"near": {"keys": len(key_rows)}}
        if unit >= self.parts.own:
            return counts | {"other": {"signatures": len(documents["uid"])}}
        return counts | {"signatures": len(documents["uid"])}


@dataclass
class NearCandidates(Pass[DedupCounts]):
    """Per range of band keys: join the documents that share a key."""

    units: int
    parts: Parts
    name: str = "near-candidates"

    def run(self, unit: int, output: Output) -> DedupCounts:
        rows = read_rows(self.parts.folder, self.parts.exchange("near-keys"), unit, _KEY)
        key, part, row = (np.ascontiguousarray(rows[name]) for name in ("key", "part", "row"))
        # keys that equal a neighbor in sorted order belong to two or more documents
        order = np.argsort(key, kind="stable")
        equal = key[order][1:] == key[order][:-1]
        shared = np.zeros(len(order), dtype=bool)
        shared[1:] |= equal
        shared[:-1] |= equal
        chosen = order[shared]
        nodes = part[chosen].astype(np.uint64) << np.uint64(32) | row[chosen]
        links = Levels(self.parts).links(1)
        sent = write_links(output, links, unit, contract(key[chosen], nodes, 0), by_part=True)
        return {"sent": sent, "near": {"compared_keys": len(key), "candidates": len(chosen)}}
