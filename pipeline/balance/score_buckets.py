"""Weight documents by the bucket of a score, instead of one cut.

Nemotron-CC (Su et al. 2024, arXiv 2412.02595) sorts documents into buckets of quality, by the highest score of several
scorers, and repeats the better ones.
"""

import json
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import numpy as np
from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.balance.counts import BalanceCounts
from clozeline.pipeline.balance.selection import SELECTED_COLUMNS
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import TEMPORARY, Output
from clozeline.pipeline.ingest.documents.copies import BUCKETS_FILE
from clozeline.pipeline.ingest.documents.files import documents_of, read_batches
from clozeline.recorded_file import find_file

SCORE_KEY: Final = "balance.buckets.score"
NO_SCORE: Final = "no score"
_EXTRA: Final = "extra."
_COLUMN: Final = re.compile(r"(?:extra\.)?[A-Za-z_]\w*")
_ROW: Final = [("high", ">u8"), ("low", ">u8"), ("bucket", "u1")]


@config_class
class ScoreBuckets:
    """Factors on the copies of documents by the bucket of their score (arXiv 2412.02595)."""

    score: str | list[str]
    """column of numbers, as in `select`, such as `quality`; of several columns, the highest number counts"""
    edges: Annotated[list[float], Field(min_length=1, max_length=254)]
    """lowest score of each bucket but the first, ascending"""
    weights: list[Annotated[float, Field(ge=0, le=255)]]
    """factor of each bucket, 0 to 255, one more than `edges`; a document without a score has the factor 1"""

    def __post_init__(self) -> None:
        if not self.columns or any(_COLUMN.fullmatch(name) is None for name in self.columns):
            raise ValueError(f"score {self.score!r}: expected the name of a column or a list of names, e.g. quality")
        if sorted(set(self.edges)) != self.edges or not all(map(math.isfinite, self.edges)):
            raise ValueError(f"edges {self.edges}: expected ascending numbers, each once, such as [0.3, 0.6, 0.9]")
        if len(self.weights) != len(self.edges) + 1:
            raise ValueError(
                f"expected {len(self.edges) + 1} weights for {len(self.edges)} edges (one for each bucket, the one "
                f"below the first edge included), got {len(self.weights)}"
            )
        if not any(self.weights):
            raise ValueError("weights: all are 0, so no document would be left; expected one above 0")

    @property
    def columns(self) -> list[str]:
        return [self.score] if isinstance(self.score, str) else self.score

    def find_bucket(self, row: Mapping[str, Any]) -> int | None:
        """Return the index of the bucket of a document, None where it has no score; a score at an edge is above it.

        Args:
            row: the columns of the document, with its `extra` as a dict.
        """
        scores = []
        for name in self.columns:
            of_input = name.startswith(_EXTRA) or name not in row
            value = row["extra"].get(name.removeprefix(_EXTRA)) if of_input else row[name]
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ConfigurationError(
                    f"{SCORE_KEY}: expected numbers in {name!r}, got {value!r} in document {row['uid'].hex()}; name a "
                    "column of numbers"
                )
            scores.append(value)
        return bisect_right(self.edges, max(scores)) if scores else None


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
