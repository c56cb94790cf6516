"""Choose the minimum score of each language from its own scores: max(low, min(high, median - standard deviation)).

FineWeb2 (Penedo et al. 2025, arXiv 2506.20920) sets its thresholds so, with 0.3 and 0.9. Scores are counted in the
records of the first pass, in steps of 1/1000, so the thresholds depend on the documents only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from clozeline.pipeline.clean.config import LanguageCut
from clozeline.pipeline.clean.quality_cut import ApplyCuts
from clozeline.pipeline.clean.steps import is_cut
from clozeline.pipeline.clean.unit_counts import CleanCounts
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, total_counts
from clozeline.pipeline.ingest.documents.document import Document

LANGUAGE_CUT_VERSION: Final = 1
"""Raise it with every change of the rule, so that runs with a cut are cleaned again."""
LANGUAGE_CUTS_FILE: Final = "language_cuts.json"
"""Documents, median, standard deviation and threshold of each language."""


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
