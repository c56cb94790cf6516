"""Count, for each document that dedup kept for others, how many documents it stands for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.pipeline.balance.counts import BalanceCounts
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.ingest.documents.copies import SIZE_ROW, SIZES_FILE
from clozeline.recorded_file import find_files

_MEMBER: Final = (("cluster", "S16"), ("uid", "S16"), ("kept", "?"))


@dataclass(frozen=True)
class WriteClusterSizes(Pass[BalanceCounts]):
    """A single unit: write the size of each cluster, its exact copies included, by the uid of the kept document.

    Needs memory for all members of clusters, about 100 bytes each.
    """

    dedup: Path
    name: str = "sizes"
    units: int = 1

    def run(self, unit: int, output: Output) -> BalanceCounts:
        exact, near = (self._members(kind) for kind in ("exact", "near"))
        # kept documents of exact clusters, sorted by uid, and the sizes of these
        names, sizes = np.unique(exact["cluster"], return_counts=True)
        kept = np.sort(exact[exact["kept"]], order="uid")
        exact_sizes = sizes[np.searchsorted(names, kept["cluster"])]
        # each member of a near cluster counts with its own exact copies
        index = np.searchsorted(kept["uid"], near["uid"])
        member_sizes = np.ones(len(near), np.int64)
        present = np.flatnonzero(np.isin(near["uid"], kept["uid"]))
        member_sizes[present] = exact_sizes[index[present]]
        clusters, rows = np.unique(near["cluster"], return_inverse=True)
        near_sizes = np.bincount(rows, weights=member_sizes, minlength=len(clusters)).astype(np.int64)
        # documents that both leave: kept in a near cluster, or in none
        alone = ~np.isin(kept["uid"], near["uid"])
        written = np.empty(int(alone.sum()) + int(near["kept"].sum()), np.dtype(list(SIZE_ROW)))
        written["uid"] = np.concatenate((kept["uid"][alone], near["uid"][near["kept"]]))
        written["size"] = np.concatenate((exact_sizes[alone], near_sizes[rows[near["kept"]]]))
        with output.file(SIZES_FILE) as path, path.open("wb") as file:
            np.save(file, np.sort(written, order="uid"))
        return {"clusters": {"kept": len(written), "documents": int(written["size"].sum())}}

    def _members(self, kind: str) -> NDArray[Any]:
        """Return the rows of all clusters of a type; each cluster has one kept document."""
        paths = sorted((self.dedup / "clusters" / kind).glob("*.arrow"))
        parts = [np.empty(0, np.dtype(list(_MEMBER)))]
        for file in find_files(self.dedup, [path.relative_to(self.dedup).as_posix() for path in paths]):
            with pa.ipc.open_file(file.buffer()) as reader:
                table = reader.read_all()
            rows = np.empty(len(table), parts[0].dtype)
            for name in ("cluster", "uid", "kept"):
                rows[name] = table[name].to_numpy(zero_copy_only=False)
            parts.append(rows)
        return np.concatenate(parts)
