"""Choose the minimum score of each language from its own scores: max(low, min(high, median - standard deviation)).

FineWeb2 (Penedo et al. 2025, arXiv 2506.20920) sets its thresholds so, with 0.3 and 0.9. Scores are counted in the
records of the first pass, in steps of 1/1000, so the thresholds depend on the documents only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Final, cast

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.languages import LanguageOptions
from clozeline.pipeline.clean.quality_cut import ApplyCuts
from clozeline.pipeline.clean.steps import SCORE_STEPS, is_cut
from clozeline.pipeline.clean.unit_counts import CleanCounts
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, total_counts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.registry import Chosen

LANGUAGE_CUT_VERSION: Final = 1
"""Raise it with every change of the rule, so that runs with a cut are cleaned again."""
LANGUAGE_CUTS_FILE: Final = "language_cuts.json"
"""Documents, median, standard deviation and threshold of each language."""


@config_class
class LanguageCut:
    """Bounds of the thresholds that languages get from their own scores."""

    low: Annotated[float, Field(ge=0, le=1)] = 0.3
    """minimum threshold, 0 to 1; the first pass rejects what is below it"""
    high: Annotated[float, Field(ge=0, le=1)] = 0.9
    """maximum threshold, 0 to 1"""

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low {self.low} exceeds high {self.high}")

    def relax(self, chosen: Chosen) -> Chosen:
        """Return an identifier that rejects only what no threshold would keep."""
        options: LanguageOptions = chosen.options
        return replace(chosen, options=replace(options, threshold=self.low, long_threshold=self.low))

    def choose(self, scores: Mapping[str, int]) -> dict[str, float | int]:
        """Return documents, median, standard deviation and threshold of the scores of a language.

        Args:
            scores: documents by score in thousandths, rounded down; at least one.

        Example: 900, 900 and 600 thousandths have the median 0.9, the deviation 0.141 and the threshold 0.759.
        """
        counts = sorted((int(score), count) for score, count in scores.items())
        total = sum(count for _, count in counts)
        middle, passed = (total - 1) // 2, 0
        median = counts[-1][0]
        for score, count in counts:
            passed += count
            if passed > middle:
                median = score
                break
        # integers up to the root, so that the sum has no order
        first = sum(score * count for score, count in counts)
        second = sum(score * score * count for score, count in counts)
        deviation = math.sqrt(total * second - first * first) / total
        threshold = max(self.low, min(self.high, (median - deviation) / SCORE_STEPS))
        return {
            "documents": total, "median": median / SCORE_STEPS, "deviation": round(deviation / SCORE_STEPS, 6),
            "threshold": round(threshold, 6),
        }  # fmt: skip


@dataclass(frozen=True)
class ChooseLanguageCuts(Pass[CleanCounts]):
    """A single unit: write the thresholds."""

    cut: LanguageCut
    units: int = 1
    name: str = "cuts"

    def run(self, unit: int, output: Output) -> CleanCounts:
        counted = cast(CleanCounts, total_counts(output.folder, "score")).get("language_scores", {})
        cuts = {language: self.cut.choose(scores) for language, scores in sorted(counted.items())}
        with output.file(LANGUAGE_CUTS_FILE) as path:
            path.write_text(json.dumps(cuts, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return {}


@dataclass(frozen=True)
class ApplyLanguageCuts(ApplyCuts):
    """Per unit: write the documents whose language was identified with its threshold or more, and all rejections."""

    cuts_file: ClassVar[str] = LANGUAGE_CUTS_FILE
    reason: ClassVar[str] = "language_score"
    step: ClassVar[str] = "language"

    def reject(self, document: Document, cuts: Mapping[str, Any]) -> str | None:
        options = self.identifiers.get(document.source_group)
        if options is None or not is_cut(document.language, options) or document.language not in cuts:
            return None
        score, least = document.language_score, cuts[document.language]["threshold"]
        return None if score >= least else f"{document.language} {score:.3f} < {least:.3f}"
