"""Files of dedup: the parts that its passes read, the files between them, and the clusters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.pipeline.dedup.columns import read_columns, read_rows
from clozeline.pipeline.execution.exchange import Exchange
from clozeline.pipeline.ingest.documents.files import documents_of
from clozeline.recorded_file import RecordedFile, recorded

_RANGES: Final = 256
DROP: Final = (("uid", "S16"), ("kept", "S16"))
"""Columns of a document that is dropped: its uid, and that of the one that is kept in its place."""
COPY: Final = (("uid", "S16"), ("part", "<u4"))
"""Columns of a document that exact dedup keeps, and of a part that holds a copy of it."""

CLUSTER: Final = (("cluster", "S16"), ("uid", "S16"), ("kept", "?"), ("similarity", "<f4"))
"""Columns of a member of a cluster, as `CLUSTER_SCHEMA` describes them."""

CLUSTER_SCHEMA: Final = pa.schema(
    [
        pa.field("cluster", pa.binary(16), nullable=False),
        pa.field("uid", pa.binary(16), nullable=False),
        pa.field("kept", pa.bool_(), nullable=False),
        pa.field("similarity", pa.float32(), nullable=False),
    ]
)
"""Columns of `clusters/{exact,near}/<range:06d>.arrow`: `cluster` is the smallest uid of the cluster, `similarity`
the estimated Jaccard similarity to the document that is kept. Every cluster has two or more members."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The documents that dedup reads, by part, and where the files between passes stand.

    Args:
        documents: folder of the stage before, which holds `documents/<unit:06d>.arrow`.
        folder: the folder of dedup.
        units: number of parts.
        ranges: number of hash ranges.
    """

    documents: Path
    folder: Path
    units: int
    ranges: int

    def source(self, part: int) -> RecordedFile:
        """Return the file of a part's documents."""
        return documents_of(self.documents, part)

    def temporary(self, kind: str, number: int) -> str:
        """Return the path of an intermediate file, relative to the stage's folder."""
        return f"tmp/{kind}/{number:06d}.arrow"

    def read(
        self, kind: str, made_by: str, number: int, facts: dict[str, Any] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Return the columns of an intermediate file that a unit of the pass `made_by` wrote."""
        return read_columns(recorded(self.folder, f"{made_by}-{number:06d}", self.temporary(kind, number)), facts)

    @property
    def exact_hashes(self) -> Exchange:
        """Rows of documents, from parts to ranges of their hash."""
        return Exchange("exact-hashes", self.units, self.ranges)

    @property
    def drops(self) -> Exchange:
        """Exact copies, from ranges of their hash to parts."""
        return Exchange("exact-drops", self.ranges, self.units)

    @property
    def near_keys(self) -> Exchange:
        """Band keys, from parts to ranges of the key."""
        return Exchange("near-keys", self.units, self.ranges)

    @property
    def exact_kept(self) -> Exchange:
        """Documents that exact dedup keeps in place of copies, from ranges of their hash to ranges of their uid."""
        return Exchange("exact-kept", self.ranges, self.ranges)

    @property
    def near_members(self) -> Exchange:
        """Documents that share a band key with another one, from parts to ranges of their component."""
        return Exchange("near-members", self.units, self.ranges)

    @property
    def near_clusters(self) -> Exchange:
        """Members of clusters, from ranges of their component to ranges of the cluster's smallest uid."""
        return Exchange("near-clusters", self.ranges, self.ranges)

    @property
    def near_decisions(self) -> Exchange:
        """Near copies, from ranges of their component to ranges of their uid."""
        return Exchange("near-decisions", self.ranges, self.ranges)

    @property
    def near_drops(self) -> Exchange:
        """Near copies, from ranges of their uid to the parts that name them."""
        return Exchange("near-drops", self.ranges, self.units)

    def exact_drops(self, part: int) -> tuple[NDArray[np.bytes_], NDArray[np.bytes_]]:
        """Return the uids of a part's documents that are copies, sorted, and the uid kept in place of each."""
        return self._sorted_drops(self.drops, part)

    def near_drops_of(self, part: int) -> tuple[NDArray[np.bytes_], NDArray[np.bytes_]]:
        """Return the same of near copies: those of a part, and those that its exact copies were dropped for."""
        return self._sorted_drops(self.near_drops, part)

    def _sorted_drops(self, exchange: Exchange, part: int) -> tuple[NDArray[np.bytes_], NDArray[np.bytes_]]:
        drops = read_rows(self.folder, exchange, part, DROP)
        order = np.argsort(drops["uid"])
        return drops["uid"][order], drops["kept"][order]


def ranges_of(shards: int) -> int:
    """Return the number of hash ranges for a plan of so many shards: each has at most the hashes of 16 shards."""
    return min(shards, max(_RANGES, -(-shards // 16)))


def write_clusters(path: Path, rows: NDArray[Any]) -> int:
    """Write members of clusters, sorted by (cluster, uid), and return their number."""
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
