"""Score texts with a fastText quality classifier (DCLM, arXiv:2406.11794, section 4.4)."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, ClassVar

from pydantic import Field

from clozeline.configuration.config import LocalPath, config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.filters import (
    DATA_FILE,
    Document,
    Measure,
    TextStatistics,
    ThresholdFilter,
    Verdict,
    at_least,
)
from clozeline.pipeline.text.fasttext_model import FastTextModel


class Quality(ThresholdFilter):
    """Rejects texts with a low score of a fastText model; writes each score as `quality`.

    The score is the probability of a label. DCLM keeps the tenth of its pages with the highest
    scores.
    """

    VERSION = 2
    thresholds: ClassVar[Mapping[str, str]] = {"low_quality": "threshold"}

    @config_class
    class Options:
        """The model, its label for good texts, and the minimum score."""

        model: LocalPath = field(metadata=DATA_FILE)
        """fastText classifier (.bin or .ftz); if its content changes, documents are cleaned
        again"""
        label: str = "__label__hq"
        """label whose probability is the score"""
        threshold: Annotated[float, Field(ge=0, le=1)] = 0.0
        """minimum score of a kept document, 0 to 1; 0 keeps all"""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._model = FastTextModel(options.model, "quality")
        if options.label not in (labels := self._model.labels()):
            raise ConfigurationError(
                f"quality: {options.model} has no label {options.label!r}; set `label` to one of "
                f"its {len(labels)} labels: {', '.join(sorted(labels)[:8])}"
            )

    def measure(self, document: Document, statistics: TextStatistics) -> Iterator[Measure]:
        """Yield the score."""
        yield at_least(
            "low_quality", self._score(statistics.text), self._options.threshold, "{:.4f}"
        )

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the verdict by the threshold, with the score."""
        score = self._score(statistics.text)
        least = self._options.threshold
        reason, detail = ("low_quality", f"{score:.4f} < {least}") if score < least else ("", "")
        return Verdict(reason, detail, columns={"quality": score})

    def _score(self, text: str) -> float:
        return round(dict(self._model.rank(text, -1))[self._options.label], 6)
