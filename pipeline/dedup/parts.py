"""Files of dedup: the parts that its passes read, the files between them, and the clusters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.dedup.columns import read_columns, uid_column

__all__ = ["CLUSTER_SCHEMA", "Parts", "write_clusters"]

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
        ranges: number of hash ranges, as many as the plan has shards.
    """

    documents: Path
    folder: Path
    units: int
    ranges: int

    def source(self, part: int) -> Path:
        """Return the file of a part's documents."""
        return self.documents / "documents" / f"{part:06d}.arrow"

    def temporary(self, kind: str, number: int) -> str:
        """Return the path of an intermediate file, relative to the stage's folder."""
        return f"tmp/{kind}/{number:06d}.arrow"

    def read(self, kind: str, number: int, facts: dict[str, Any] | None = None) -> dict[str, NDArray[Any]]:
        """Return the columns of an intermediate file."""
        return read_columns(self.folder / self.temporary(kind, number), facts)

    def exact_drops(self, part: int) -> tuple[NDArray[np.bytes_], NDArray[np.bytes_]]:
        """Return the uids of a part's documents that are copies, sorted, and the uid kept in place of each."""
        uids, kept = [uid_column([])], [uid_column([])]
        for index in range(self.ranges):
            drops = self.read("exact-drops", index)
            first, last = np.searchsorted(drops["part"], [part, part + 1])
            uids.append(drops["uid"][first:last])
            kept.append(drops["kept"][first:last])
        joined, replacing = np.concatenate(uids), np.concatenate(kept)
        order = np.argsort(joined)
        return joined[order], replacing[order]


def write_clusters(
    path: Path,
    cluster: NDArray[np.bytes_],
    uid: NDArray[np.bytes_],
    kept: NDArray[np.bool_],
    similarity: NDArray[np.float32],
) -> None:
    """Write members of clusters, sorted by (cluster, uid)."""
    order = np.lexsort((uid, cluster))
    identities = [
        pa.Array.from_buffers(pa.binary(16), len(order), [None, pa.py_buffer(np.ascontiguousarray(values[order]))])
        for values in (cluster, uid)
    ]
    columns = [*identities, pa.array(kept[order]), pa.array(similarity[order], pa.float32())]
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=3), use_threads=False)
    with path.open("wb") as file, pa.ipc.new_file(file, CLUSTER_SCHEMA, options=options) as writer:
        writer.write_batch(pa.record_batch(columns, schema=CLUSTER_SCHEMA))
