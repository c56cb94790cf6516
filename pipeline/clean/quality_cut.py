"""Keep a share of the documents by their ranks: passes of `clean` after all documents are scored.

The ranks of all documents are counted in the records of units, so the cut depends on the documents only, not on the
number of tasks. Documents of the rank at the cut all stay.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Final, cast

from clozeline.pipeline.clean.filters.quality import score_of_rank
from clozeline.pipeline.clean.languages import LanguageOptions
from clozeline.pipeline.clean.steps import RANK
from clozeline.pipeline.clean.unit import CleanUnits
from clozeline.pipeline.clean.unit_counts import CleanCounts
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import TEMPORARY, Output, require_equal, total_counts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import (
    Rejection,
    read_documents,
    read_malformed,
    read_rejects,
    write_documents,
    write_rejects,
)
from clozeline.recorded_file import find_file

CUTS_FILE: Final = "quality_cuts.json"
"""Lowest kept rank, its score and the documents of each share."""


def cut_rank(ranks: Mapping[str, int], keep: float) -> int:
    """Return the lowest rank that is kept: the highest one at which at least a share `keep` of all documents stays.

    Example: `cut_rank({"1": 5, "2": 3, "3": 2}, 0.3)` is 2: the two best of ten documents are fewer than three.
    """
    least = math.ceil(Fraction(repr(keep)) * sum(ranks.values()))
    kept = 0
    for rank in sorted(map(int, ranks), reverse=True):
        kept += ranks[str(rank)]
        if kept >= least:
            return rank
    return 0


class ScoredUnits(CleanUnits):
    """Writes the documents of each unit before the cut, with their ranks, as intermediates."""

    intermediate: ClassVar[bool] = True
    folder: ClassVar[str] = f"{TEMPORARY}/"


@dataclass(frozen=True)
class ChooseCuts(Pass[CleanCounts]):
    """A single unit: write the lowest kept rank of each share."""

    units: int = 1
    name: str = "cuts"

    def run(self, unit: int, output: Output) -> CleanCounts:
        counted = cast(CleanCounts, total_counts(output.folder, "score")).get("ranks", {})
        cuts: dict[str, Any] = {}
        for share, ranks in sorted(counted.items()):
            rank = cut_rank(ranks, float(share.split()[0]))
            kept = sum(count for each, count in ranks.items() if int(each) >= rank)
            cuts[share] = {
                "rank": rank,
                "score": round(score_of_rank(rank), 6),
                "documents": sum(ranks.values()),
                "kept": kept,
            }
        with output.file(CUTS_FILE) as path:
            path.write_text(json.dumps(cuts, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return {}


@dataclass(frozen=True)
class ApplyCuts(Pass[CleanCounts]):
    """Per unit: write the documents at or above the cut, and all rejections; its counts correct those before."""

    units: int
    shares: Mapping[str, str]  # share of each source that has one
    seed: int
    keep_text: float
    identifiers: Mapping[str, LanguageOptions] = field(default_factory=dict)
    """options of the language identifier of each source that has one"""
    name: str = "main"
    cuts_file: ClassVar[str] = CUTS_FILE
    reason: ClassVar[str] = "low_quality"
    step: ClassVar[str] = "quality"

    def reject(self, document: Document, cuts: Mapping[str, Any]) -> str | None:
        """Return why a document is below the cut, None where it is not; its rank is removed."""
        rank = document.extra.pop(RANK, None)
        if rank is None or rank >= (cut := cuts[self.shares[document.source_group]])["rank"]:
            return None
        return f"{document.extra['quality']:.4f} < {cut['score']:.4f}"

    def run(self, unit: int, output: Output) -> CleanCounts:
        documents, rejects = (
            find_file(output.folder, f"score-{unit:06d}", f"{ScoredUnits.folder}{kind}/{unit:06d}.arrow")
            for kind in ("documents", "rejects")
        )
        cuts = json.loads(find_file(output.folder, "cuts-000000", self.cuts_file).text())
        rejections = [*read_malformed(rejects), *read_rejects(rejects)]
        below: list[Document] = []

        def keep_best() -> Iterator[Document]:
            for document in read_documents(documents):
                if (detail := self.reject(document, cuts)) is None:
                    yield document
                    continue
                below.append(document.replace(text=""))
                rejections.append(
                    Rejection.of(document, stage="clean", reason=self.reason, detail=detail, keep_text=self.keep_text,
                                 seed=self.seed)
                )  # fmt: skip

        earlier = len(rejections)
        with output.file(f"documents/{unit:06d}.arrow") as path:
            write_documents(path, keep_best())
        with output.file(f"rejects/{unit:06d}.arrow") as path:
            require_equal(f"clean: unit {unit}", "rejections", earlier + len(below), "rejections written",
                          write_rejects(path, rejections))  # fmt: skip
        characters = sum(document.n_chars for document in below)
        return {
            "documents_out": -len(below), "rejected": {self.reason: len(below)}, "characters_out": -characters,
            "characters_removed": {self.step: characters},
            "languages": {language: -count for language, count in Counter(each.language for each in below).items()},
        }  # fmt: skip
