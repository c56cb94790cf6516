"""Options of `clean`: extractor, language identifier and filters, also by source."""

import math
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.pipeline.clean.languages import LANGUAGES, LanguageOptions
from clozeline.registry import Chosen, Default, OneOf

SCORE_STEPS: Final = 1000
"""Language scores are counted in thousandths."""
_EXTRACTORS: Final = "clozeline.pipeline.clean.extractors"
_FILTERS: Final = "clozeline.pipeline.clean.filters"
ChosenExtractor = Annotated[Chosen, OneOf(_EXTRACTORS)]
ChosenLanguage = Annotated[Chosen, OneOf(LANGUAGES)]
ChosenFilter = Annotated[Chosen, OneOf(_FILTERS)]


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


@config_class
class SourceConfig:
    """Settings of one source, which replace those of `clean`."""

    extractor: ChosenExtractor | None = None
    """extractor for the pages of this source"""
    language: Literal["same"] | ChosenLanguage | None = "same"
    """language identifier of this source; null identifies nothing and keeps all"""
    filters: list[ChosenFilter] | None = None
    """filters of this source; [] disables filtering; pairs of aligned texts only pass filters named here"""


@config_class
class CleanConfig:
    """Steps from raw records to documents."""

    extractor: ChosenExtractor = field(default_factory=Default(_EXTRACTORS, "resiliparse"))
    """extractor of text from HTML"""
    language: ChosenLanguage | None = field(default_factory=Default(LANGUAGES, "py3langid"))
    """language identifier and the languages to keep; null identifies nothing and keeps all"""
    filters: list[ChosenFilter] = field(
        default_factory=Default(_FILTERS, ["gopher_quality", "c4_quality", "gopher_repetition"])
    )
    """filters, applied in this order; the first that rejects gives the reason"""
    annotate: list[ChosenFilter] = field(default_factory=list)
    """filters that reject nothing here: their measures are written to each document, for `balance.select`"""
    by_language: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """options of filters for single languages, such as `{th: {gopher_quality: {words: [20, 100000]}}}`; they replace
    those of `filters`, `annotate` and the filters of sources"""
    language_cut: LanguageCut | None = None
    """chooses the minimum score of each language from its own scores (FineWeb2), in place of the identifier's
    `threshold` and `long_threshold`: `{low: 0.3, high: 0.9}`, or `{}` for these values"""
    sources: dict[str, SourceConfig] = field(default_factory=dict)
    """settings by the `source` label of the inputs, which replace those above"""
    exclude: Annotated[Path | None, HOME_EXPANDED] = None
    """file with a uid, URL, host, `source` or path of an input on each line, which the run leaves out"""
    keep_text: Annotated[float, Field(ge=0, le=1)] = 0.01
    """fraction of rejections that store the start of the text, 0 to 1"""
