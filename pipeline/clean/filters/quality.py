"""A linear quality model (Li et al. 2024, DCLM, arXiv:2406.11794, section 4.4)."""

import math
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.pipeline.clean.filters import DATA_FILE, Measure, ThresholdFilter, Verdict
from clozeline.pipeline.text.linear_model import MODEL_VERSION, LinearModel, probability
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.pipeline.text.word_hashes import WordHashes

RANKS: Final = 1 << 12
_RANKS_PER_LOGIT: Final = 64


class Quality(ThresholdFilter):
    """Keeps the texts that a model scores highest, and writes the score of every document as `quality`.

    `clozeline train-quality` trains a model that tells good texts from those of the crawl. DCLM keeps the best tenth.

    With `keep: 0.1`, the tenth of the documents with the highest scores stays; the others are `low_quality`
    """

    VERSION: ClassVar[int] = MODEL_VERSION
    reasons: ClassVar[tuple[str, ...]] = ("low_quality",)
    writes: ClassVar[tuple[str, ...]] = ("quality",)
    """keys of `extra` that it adds to kept documents"""

    @config_class
    class Options:
        """The model, and how many documents stay; without `keep` and `threshold` all of them do."""

        model: Annotated[Path, HOME_EXPANDED] = field(metadata=DATA_FILE)
        """model of `clozeline train-quality`, an .npz file; documents are cleaned again if its content changes"""
        keep: Annotated[float, Field(gt=0, le=1)] | None = None
        """share of the documents that reach this filter to keep, those with the highest scores, above 0 to 1; the
        last filter of its list only"""
        threshold: Annotated[float, Field(ge=0, le=1)] | None = None
        """minimum score of a kept document, 0 to 1, instead of a share"""

        def __post_init__(self) -> None:
            if self.keep is not None and self.threshold is not None:
                raise ValueError("expected `keep` (a share) or `threshold` (a score), got both; remove one of them")

    def __init__(self, options: Options) -> None:
        self._options = options
        self._model = LinearModel.load(options.model)
        self._words = WordHashes()

    @classmethod
    def columns_of(cls, name: str) -> tuple[str, ...]:
        """Return the name of the score."""
        return cls.writes

    def annotate(self, name: str, statistics: TextStatistics, language: str) -> dict[str, Any]:
        """Return the score."""
        return {"quality": round(probability(self._logit(statistics.text)), 6)}

    def measure(self, statistics: TextStatistics, language: str) -> Iterator[Measure]:
        """Yield the score."""
        score = round(probability(self._logit(statistics.text)), 6)
        yield "low_quality", score, self._options.threshold or 0.0, math.inf, "{:.4f}"

    def judge(self, statistics: TextStatistics, language: str) -> Verdict:
        """Return the verdict by the threshold; with `keep`, the rank of the document among all."""
        logit = self._logit(statistics.text)
        score = round(probability(logit), 6)
        columns = {"quality": score}
        if self._options.threshold is not None and score < self._options.threshold:
            return Verdict("low_quality", f"{score:.4f} < {self._options.threshold}", columns=columns)
        rank = min(max(RANKS // 2 + round(logit * _RANKS_PER_LOGIT), 0), RANKS - 1)
        return Verdict(columns=columns, rank=None if self._options.keep is None else rank)

    def _logit(self, text: str) -> float:
        return self._model.logit(self._words.digests(text))


def score_of_rank(rank: int) -> float:
    """Return the lowest score of documents of a rank, 1 to 4095."""
    return probability((rank - RANKS // 2 - 0.5) / _RANKS_PER_LOGIT)
