"""Files of `dedup`: the parts that its passes read, the files between the passes, and the clusters."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.pipeline.dedup.against import OTHER_MERIT, OtherOutput
from clozeline.pipeline.dedup.columns import read_rows
from clozeline.pipeline.dedup.config import Keep
from clozeline.pipeline.dedup.keep_rules import merits
from clozeline.pipeline.execution.exchange import Exchange
from clozeline.pipeline.ingest.documents.document import row_schema
from clozeline.pipeline.ingest.documents.files import documents_of
from clozeline.recorded_file import RecordedFile

_RANGES: Final = 256
DROP: Final = (("uid", "S16"), ("kept", "S16"))
"""Row of a dropped document: its uid, and the uid of the document kept instead."""
COPY: Final = (("uid", "S16"), ("part", "<u4"))
"""Row of a document that exact dedup keeps: its uid, and a part that holds a copy of it."""
PIECE_DROP: Final = (("row", "<u4"), ("first", "<u4"), ("last", "<u4"))
"""Row of a piece to remove: row of its document in the part, and its units (lines, sentences) [first, last)."""
CLUSTER: Final = (("cluster", "S16"), ("uid", "S16"), ("kept", "?"), ("similarity", "<f4"))
"""Row of a member of a cluster, see `CLUSTER_SCHEMA`."""
CLUSTER_SCHEMA: Final = row_schema(
    {"cluster": pa.binary(16), "uid": pa.binary(16), "kept": pa.bool_(), "similarity": pa.float32()}
)
"""Columns of `clusters/{exact,near}/<range:06d>.arrow`: `cluster` is the smallest uid of the cluster, `similarity`
the estimated Jaccard similarity to the kept document. Every cluster has two or more members."""

_Side = Literal["parts", "own", "ranges"]
EXCHANGES: Final[dict[str, tuple[_Side, _Side]]] = {
    "exact-hashes": ("parts", "ranges"),  # rows of documents, to ranges of their hash
    "exact-drops": ("ranges", "parts"),  # exact copies, from ranges of their hash to parts
    "exact-kept": ("ranges", "ranges"),  # kept by exact dedup, from ranges of their hash to those of their uid
    "near-keys": ("parts", "ranges"),  # band keys, to ranges of the key
    "near-members": ("parts", "ranges"),  # documents that share a band key, to ranges of their component
    "near-clusters": ("ranges", "ranges"),  # cluster members, from component ranges to those of the smallest uid
    "near-decisions": ("ranges", "ranges"),  # near copies, from component ranges to ranges of their uid
    "near-drops": ("ranges", "parts"),  # near copies, from ranges of their uid to the parts that name them
    "lines-hashes": ("own", "ranges"),  # hashes of lines, to their ranges
    "lines-drops": ("ranges", "own"),  # lines to remove, to their parts
    "spans-hashes": ("own", "ranges"),  # the same for spans of sentences
    "spans-drops": ("ranges", "own"),
}
"""Source and destination of each exchange of rows; `own` excludes the parts of another output."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Paths of the documents that dedup reads, by part, and of the files between its passes."""

    documents: Path  # of the previous stage, which holds `documents/<unit:06d>.arrow`
    folder: Path  # of dedup
    own: int  # number of parts
    ranges: int  # number of hash ranges
    other: OtherOutput | None = None  # whose parts come after the own ones, for exact and near dedup

    @property
    def units(self) -> int:
        """Number of parts, including the other output's."""
        return self.own + (0 if self.other is None else self.other.units)

    def source(self, part: int) -> RecordedFile:
        if part >= self.own and self.other is not None:
            return documents_of(self.other.documents, part - self.own)
        return documents_of(self.documents, part)

    def merits(self, part: int, batch: pa.RecordBatch, keep: Keep) -> NDArray[np.int64]:
        """Return the merit of each document of a part, int64 [n]; the other output's rank above all own ones."""
        return merits(batch, keep) if part < self.own else np.full(len(batch), OTHER_MERIT, np.int64)

    def temporary(self, kind: str, number: int) -> str:
        """Return the path of an intermediate file, relative to the folder of the stage."""
        return f"tmp/{kind}/{number:06d}.arrow"

    def exchange(self, kind: str) -> Exchange:
        """Return an exchange of rows between passes; `EXCHANGES` lists them."""
        sizes = {"parts": self.units, "own": self.own, "ranges": self.ranges}
        source, destination = (sizes[side] for side in EXCHANGES[kind])
        return Exchange(kind, source, destination)

    def drops(self, exchange: str, part: int) -> tuple[NDArray[np.bytes_], NDArray[np.bytes_]]:
        """Return the dropped uids that a part must know, sorted, and the uid kept instead of each.

        `exact-drops` are documents of the part; `near-drops` also documents that its exact copies were dropped for.
        """
        drops = read_rows(self.folder, self.exchange(exchange), part, DROP)
        order = np.argsort(drops["uid"])
        return drops["uid"][order], drops["kept"][order]


def count_ranges(shards: int) -> int:
    """Return the number of hash ranges for a plan with `shards` shards: at most the hashes of 16 shards in each."""
    return min(shards, max(_RANGES, -(-shards // 16)))


def write_clusters(path: Path, rows: NDArray[Any]) -> int:
    """Write cluster members sorted by (cluster, uid) and return their number."""
    rows = rows[np.lexsort((rows["uid"], rows["cluster"]))]
    identities = [
        pa.Array.from_buffers(pa.binary(16), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows[name]))])
        for name in ("cluster", "uid")
    ]
    batch = pa.record_batch([*identities, rows["kept"], rows["similarity"]], schema=CLUSTER_SCHEMA)
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=3), use_threads=False)
    with path.open("wb") as file, pa.ipc.new_file(file, CLUSTER_SCHEMA, options=options) as writer:
        writer.write_batch(batch)
    return int(batch.num_rows)
