"""Weight documents by the bucket of a score, instead of one cut.

Nemotron-CC (Su et al. 2024, arXiv 2412.02595) sorts documents into buckets of quality, by the highest score of several
scorers, and repeats the better ones.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from clozeline.pipeline.balance.config import ScoreBuckets
from clozeline.pipeline.balance.counts import BalanceCounts
from clozeline.pipeline.balance.selection import SELECTED_COLUMNS
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import TEMPORARY, Output
from clozeline.pipeline.ingest.documents.copies import BUCKETS_FILE
from clozeline.pipeline.ingest.documents.files import documents_of, read_batches
from clozeline.recorded_file import find_file

NO_SCORE: Final = "no score"
_ROW: Final = [("high", ">u8"), ("low", ">u8"), ("bucket", "u1")]


def name_buckets(edges: Sequence[float]) -> list[str]:
    """Return the names of the buckets in reports.

    Example: the edges 0.3 and 0.6 give `below 0.3`, `0.3 to 0.6` and `0.6 and above`.
    """
    words = list(map(repr, edges))
    inner = [f"{low} to {high}" for low, high in pairwise(words)]
    return [f"below {words[0]}", *inner, f"{words[-1]} and above"]


@dataclass(frozen=True)
class BucketDocuments(Pass[BalanceCounts]):
    """One unit per part of the documents: count them by bucket, and write uid and bucket where the factor is not 1."""

    units: int
    documents: Path
    """folder of the stage that wrote the documents"""
    buckets: ScoreBuckets
    name: str = "scores"
    intermediate: ClassVar[bool] = True

    def run(self, unit: int, output: Output) -> BalanceCounts:
        labels = name_buckets(self.buckets.edges)
        counts = Counter(dict.fromkeys([*labels, NO_SCORE], 0))
        rows = []
        for row in self._read(unit):
            bucket = self.buckets.find_bucket(row)
            counts[NO_SCORE if bucket is None else labels[bucket]] += 1
            if bucket is not None and self.buckets.weights[bucket] != 1:
                rows.append(row["uid"] + bytes([bucket]))
        with output.file(f"{TEMPORARY}/buckets/{unit:06d}.bin") as path:
            path.write_bytes(b"".join(rows))
        return {"buckets": dict(counts)}

    def _read(self, unit: int) -> Iterator[dict[str, Any]]:
        columns = ("uid", *(name for name in self.buckets.columns if name in SELECTED_COLUMNS), "extra")
        for batch in read_batches(documents_of(self.documents, unit), columns):
            for row in batch.to_pylist():
                yield {**row, "extra": json.loads(row["extra"])}


@dataclass(frozen=True)
class MergeBuckets(Pass[BalanceCounts]):
    """A single unit: write uid and bucket of the documents of all parts, sorted by uid."""

    parts: int
    units: int = 1
    name: str = "buckets"

    def run(self, unit: int, output: Output) -> BalanceCounts:
        files = [
            find_file(output.folder, f"scores-{part:06d}", f"{TEMPORARY}/buckets/{part:06d}.bin")
            for part in range(self.parts)
        ]
        rows = np.frombuffer(b"".join(file.buffer().to_pybytes() for file in files), dtype=_ROW)
        with output.file(BUCKETS_FILE) as path:
            path.write_bytes(rows[np.lexsort((rows["low"], rows["high"]))].tobytes())
        return {}
