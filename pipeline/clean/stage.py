"""Clean: an input file in, documents out; what is left out is counted and, as a document, kept with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.clean.unit import CleanUnits, SourceSteps
from pipeline.clean.unit_counts import CleanCounts
from pipeline.config import STRICT
from pipeline.errors import ConfigurationError
from pipeline.execution.stage import Pass, Row, Stage, amount
from pipeline.execution.unit_record import require_equal
from pipeline.recipe import Recipe
from pipeline.registry import Chosen, OneOf, choose, find
from pipeline.text.normal_form import NORMALISE_VERSION

__all__ = ["CleanConfig", "CleanStage", "SourceConfig"]

_CLEAN_VERSION: Final = 1

ChosenExtractor = Annotated[Chosen, OneOf("pipeline.extractors")]
ChosenLanguage = Annotated[Chosen, OneOf("pipeline.languages")]
ChosenFilter = Annotated[Chosen, OneOf("pipeline.filters")]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SourceConfig:
    """Keys that replace those of `clean` for one source."""

    extractor: ChosenExtractor | None = None
    """extractor of this source's pages"""
    language: Literal["same"] | ChosenLanguage | None = "same"
    """language identifier of this source; null identifies nothing and keeps all"""
    filters: list[ChosenFilter] | None = None
    """filters of this source; [] filters nothing; pairs of aligned texts are filtered by these alone"""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class CleanConfig:
    """The steps from raw records to documents."""

    extractor: ChosenExtractor = field(default_factory=lambda: choose("pipeline.extractors", "resiliparse"))
    """how the text is taken out of HTML"""
    language: ChosenLanguage | None = field(default_factory=lambda: choose("pipeline.languages", "py3langid"))
    """language identifier and the languages to keep; null identifies nothing and keeps all"""
    filters: list[ChosenFilter] = field(
        default_factory=lambda: [
            choose("pipeline.filters", name) for name in ("gopher_quality", "c4_quality", "gopher_repetition")
        ]
    )
    """filters in their order; the first that objects gives the reason"""
    sources: dict[str, SourceConfig] = field(default_factory=dict)
    """by the inputs' `source` label: keys that replace those above"""
    keep_text: Annotated[float, Field(ge=0, le=1)] = 0.01
    """share of rejections that show the beginning of the text, 0 to 1"""


class CleanStage(Stage[CleanConfig, CleanCounts]):
    """One pass over the units of the plan."""

    name: ClassVar[str] = "clean"
    place: ClassVar[int] = 10
    writes_documents: ClassVar[bool] = True
    shared: ClassVar[tuple[str, ...]] = ("seed", "corpus", "limits", "on_error")

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        labels = {entry.source for entry in recipe.input}
        for label in self.config.sources:
            if labels and label not in labels:
                known = ", ".join(sorted(labels))
                raise ConfigurationError(f"clean.sources.{label}: no input has this `source` label; they are: {known}")

    def version(self) -> int:
        """Sum of the versions of everything that decides a document's text, or whether it is kept."""
        readers = [find("pipeline.readers", name) for name in {unit.reader for unit in self.plan.units}]
        steps = [source for _, source in sorted(self._sources().items())]
        chosen = [step for source in steps for step in (source.extractor, source.language, *source.filters) if step]
        versions = [algorithm.VERSION for algorithm in readers] + [step.type.VERSION for step in chosen]
        return _CLEAN_VERSION + NORMALISE_VERSION + int(sum(versions))

    def passes(self) -> Sequence[Pass[CleanCounts]]:
        """Return the one pass, from reading to writing."""
        work = CleanUnits(
            planned=self.plan.units,
            sources=self._sources(),
            corpus=self.recipe.corpus,
            seed=self.recipe.seed,
            limits=self.recipe.limits,
            keep_text=self.config.keep_text,
            fail_truncated=self.recipe.on_error.truncated == "fail",
        )
        return [work]

    def _sources(self) -> dict[str, SourceSteps]:
        labels = {unit.source_group for unit in self.plan.units}
        return {label: self._steps(label) for label in sorted(labels)}

    def _steps(self, label: str) -> SourceSteps:
        own = self.config.sources.get(label, SourceConfig())
        return SourceSteps(
            extractor=own.extractor or self.config.extractor,
            language=self.config.language if own.language == "same" else own.language,
            filters=self.config.filters if own.filters is None else own.filters,
            pair_filters=own.filters or [],
        )

    def row(self, counts: CleanCounts) -> Row:
        """Show documents, and the reasons why records and documents were left out."""
        left_out = (counts["rejected"], counts["malformed"], counts["ignored"], counts["notes"])
        return Row(amount(counts["documents_in"], "document"), amount(counts["documents_out"], "document"), left_out)

    def check(self, counts: CleanCounts) -> None:
        """Check that no record, document or character is lost or counted twice."""
        ignored, malformed = sum(counts.get("ignored", {}).values()), sum(counts.get("malformed", {}).values())
        rejected = sum(counts.get("rejected", {}).values())
        documents_in = counts.get("documents_in", 0)
        require_equal(self.name, "records_in", counts.get("records_in", 0), "ignored + malformed + documents_in",
                      ignored + malformed + documents_in)  # fmt: skip
        require_equal(self.name, "documents_in", documents_in, "documents_out + rejected",
                      counts.get("documents_out", 0) + rejected)  # fmt: skip
        kept = counts.get("characters_out", 0) + sum(counts.get("characters_removed", {}).values())
        require_equal(self.name, "characters_in", counts.get("characters_in", 0), "characters_out + removed", kept)
