"""Options of `clean`: extractor, language identifier and filters, also by source."""

from dataclasses import field, replace
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from clozeline.configuration.config import LocalPath, config_class
from clozeline.configuration.described_keys import Common
from clozeline.pipeline.registries import (
    EXTRACTORS,
    FILTERS,
    LANGUAGES,
    ExtractorComponent,
    FilterComponent,
    LanguageComponent,
)
from clozeline.pipeline.text.normal_form import NormalForm

LineRules: TypeAlias = Literal["paragraphs", "lines"]


@config_class
class SourceConfig:
    """Settings of one source, which replace those of `clean`."""

    extractor: ExtractorComponent | None = None
    """extractor for the pages of this source"""
    language: Literal["same"] | LanguageComponent | None = "same"
    """language identifier of this source; null identifies nothing and keeps every document"""
    normalize: NormalForm | None = None
    """stored form of the texts of this source; null: as in `clean`"""
    unwrap: bool | None = None
    """whether hard-wrapped paragraphs of this source become one line each; null: as in `clean`"""
    line_rules: LineRules | None = None
    """what line rules judge in texts of this source; null: as in `clean`"""
    filters: list[FilterComponent] | None = None
    """filters of this source; [] disables filtering. Pairs of aligned texts pass only the filters
    named here"""


@config_class
class CleanConfig:
    """Steps from raw records to documents."""

    extractor: Annotated[ExtractorComponent, Common()] = field(
        default_factory=EXTRACTORS.default("resiliparse")
    )
    """extractor of text from HTML"""
    language: Annotated[LanguageComponent | None, Common()] = field(
        default_factory=LANGUAGES.default("py3langid")
    )
    """language identifier and the languages to keep; null identifies nothing and keeps all"""
    normalize: NormalForm = "prose"
    """stored form of texts. `prose` composes accents and drops controls, outer blanks and repeated
    empty lines. `code` keeps everything that a compiler or a diff can see. `sequence` keeps capital
    letters without white space, for DNA and proteins. `none` only makes the text valid Unicode"""
    unwrap: bool = False
    """store each hard-wrapped paragraph as one line; false stores texts unchanged, and joins lines
    for judging alone"""
    line_rules: LineRules = "paragraphs"
    """what line rules judge: `paragraphs`, with hard-wrapped lines joined, or `lines`, each line
    alone as published"""
    filters: Annotated[list[FilterComponent], Common()] = field(
        default_factory=FILTERS.defaults("gopher_quality", "c4_quality", "gopher_repetition")
    )
    """filters, applied in this order; the first that rejects gives the reason"""
    sources: dict[str, SourceConfig] = field(default_factory=dict)
    """settings by the `source` label of the inputs, which replace those above"""
    exclude: LocalPath | None = None
    """file with a uid, URL, host, `source` or input path per line, which the run skips"""
    keep_text: Annotated[float, Field(ge=0, le=1)] = 0.01
    """fraction of rejections that store the start of the text, 0 to 1; unless it is 0, the first of
    each reason store it in any case"""

    def of_source(self, label: str) -> SourceConfig:
        """Return the settings of a source: its own, and those above where it sets none."""
        own = self.sources.get(label, SourceConfig())
        unset = vars(SourceConfig()).items()
        return replace(
            own, **{key: getattr(self, key) for key, value in unset if getattr(own, key) == value}
        )
