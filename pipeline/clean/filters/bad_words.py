"""Reject texts with listed words (last rule of C4, Raffel et al. 2020, arXiv:1910.10683)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import ClassVar

from clozeline.configuration.config import LocalPath, config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.filters import (
    DATA_FILE,
    Document,
    Measure,
    TextStatistics,
    ThresholdFilter,
    Verdict,
    at_most,
    read_terms,
)
from clozeline.pipeline.clean.filters.gopher_quality import Share
from clozeline.pipeline.text.language_codes import LanguageTable
from clozeline.pipeline.text.normal_form import match_words


class BadWords(ThresholdFilter):
    """Rejects texts with listed words, by language.

    You provide the lists: Clozeline has none, and no recipe uses them, because such lists also hit
    dialects and texts about health. A text in a language without a list is kept, and counted as
    `bad_words_unavailable`. Words are compared without case and accents.

    With `damn` in the list of `en`, "Damn it." is rejected as `bad_words`: one word of two
    """

    VERSION = 2
    thresholds: ClassVar[Mapping[str, str]] = {"bad_words": "share"}

    @config_class
    class Options:
        """The lists, and the share of listed words that is too high."""

        lists: LocalPath = field(metadata=DATA_FILE)
        """folder with a file per language, named by its code such as `en` or `en.txt`, with one
        term per line"""
        share: Share = 0.0
        """maximum fraction of listed words, 0 to 1; 0 rejects a text with a single one"""

    def __init__(self, options: Options) -> None:
        self._share = options.share
        if not options.lists.is_dir():
            raise ConfigurationError(
                f"bad_words.lists {options.lists}: expected a folder with one file per language"
            )
        files = sorted(
            file
            for file in options.lists.iterdir()
            if file.is_file() and not file.name.startswith(".")
        )
        self._terms = LanguageTable(
            {file.name.split(".")[0]: _group_by_first_word(file) for file in files}
        )

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the verdict by the share of listed words; note a language without a list."""
        if document.language not in self._terms:
            return Verdict(note="bad_words_unavailable")
        return super().judge(document, statistics)

    def measure(self, document: Document, statistics: TextStatistics) -> Iterator[Measure]:
        """Yield the share of words in listed terms."""
        if (terms := self._terms.get(document.language)) is not None:
            words = match_words(statistics.text)
            yield at_most("bad_words", _count_words(words, terms) / max(1, len(words)), self._share)


def _group_by_first_word(path: Path) -> Mapping[str, Sequence[list[str]]]:
    """Return the terms as lists of words, grouped by their first word, longest first."""
    by_first: dict[str, list[list[str]]] = {}
    for term in sorted(set(read_terms(path))):
        if words := match_words(term):
            by_first.setdefault(words[0], []).append(words)
    return {first: sorted(terms, key=len, reverse=True) for first, terms in by_first.items()}


def _count_words(words: Sequence[str], terms: Mapping[str, Sequence[list[str]]]) -> int:
    """Count the words of a text that are in a listed term; no word counts twice."""
    count = 0
    start = 0

    while start < len(words):
        # the longest term that starts here
        candidates = terms.get(words[start], ())
        found = (len(term) for term in candidates if words[start : start + len(term)] == term)
        length = next(found, 0)
        count = count + length
        start = start + max(1, length)

    return count
