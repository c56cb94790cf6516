"""Options of filters that single languages replace: a threshold made for English prose is wrong for Thai or Finnish.

FineWeb2 (arXiv 2506.20920) sets the thresholds of each language from its own distribution.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.filters import Filter, Verdict
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.registry import Chosen, choose

FILTERS: Final = "clozeline.pipeline.clean.filters"
ByLanguage: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Options that differ, by language and filter: `{th: {gopher_quality: {words: [20, 100000]}}}`."""


class FilterByLanguage:
    """A filter that judges each language by its own options, and all others by the options of the recipe."""

    def __init__(self, filter_: Filter, by_language: Mapping[str, Filter]) -> None:
        self._filter, self._by_language = filter_, by_language
        self.reasons = filter_.reasons

    def judge(self, statistics: TextStatistics, language: str) -> Verdict:
        return self._by_language.get(language, self._filter).judge(statistics, language)

    def annotate(self, name: str, statistics: TextStatistics, language: str) -> dict[str, Any]:
        step: Any = self._by_language.get(language, self._filter)
        columns: dict[str, Any] = step.annotate(name, statistics, language)
        return columns


def build_filter(chosen: Chosen, by_language: ByLanguage) -> Any:
    """Build a filter, with one for each language that has options of its own."""
    others = {language: each.build() for language, each in chosen_by_language(chosen, by_language).items()}
    return FilterByLanguage(chosen.build(), others) if others else chosen.build()


def chosen_by_language(chosen: Chosen, by_language: ByLanguage) -> dict[str, Chosen]:
    """Return a filter with the options of each language; ConfigurationError for an unknown option or a wrong value."""
    return {
        language: choose(FILTERS, {**chosen.plain(), **options[chosen.name]})
        for language, options in by_language.items()
        if chosen.name in options
    }


def find_mistakes(key: str, by_language: ByLanguage, filters: Sequence[Chosen], known: frozenset[str]) -> Iterator[str]:
    """Yield what is wrong with options by language.

    `filters` are those of the recipe; `known` are the codes of the language identifier, empty if there is none.
    """
    names = sorted({chosen.name for chosen in filters})
    for language, options in by_language.items():
        if known and language not in known:
            near = _nearest(language, sorted(known))
            yield f"{key}.{language}: the language identifier knows no '{language}'; {near}"
        for name, changed in options.items():
            where = f"{key}.{language}.{name}"
            if name not in names:
                yield f"{where}: the recipe has no filter '{name}'; {_nearest(name, names)}"
            elif "keep" in changed or any(hasattr(each.type, "judge_url") for each in filters if each.name == name):
                yield (
                    f"{where}: a filter of URLs runs before the language is known, and `keep` is a share of all "
                    "languages; set them in `filters`, or by source in `clean.sources`"
                )
            else:
                try:
                    for chosen in (each for each in filters if each.name == name):
                        chosen_by_language(chosen, {language: options})
                except ConfigurationError as error:
                    yield f"{where}: {error}"


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known) or 'none'}"
