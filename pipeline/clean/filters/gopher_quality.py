"""Quality rules of Gopher (Rae et al. 2021, arXiv:2112.11446, table A1)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from clozeline.configuration.config import Natural, config_class
from clozeline.pipeline.clean.filters import (
    DATA_FILE,
    KEEP,
    Document,
    Measure,
    ThresholdFilter,
    Verdict,
    at_least,
    at_most,
)
from clozeline.pipeline.text.language_codes import LanguageTable
from clozeline.pipeline.text.text_statistics import TextStatistics, read_stop_words

Share = Annotated[float, Field(ge=0, le=1)]

_SHORT: Final = 50
"""Words of the paper's shortest page; shares of words say nothing about shorter texts."""
_ELLIPSES: Final = re.compile(r"(?:\.\.\.|…)+")

_STOP_WORDS: Final = {
    "en": "the be to of and that have with",  # the paper's
    "de": "der die und in den von zu das mit sich ist nicht ein",
    "fr": "de la le et les des en un du une que est pour",
    "es": "de la que el en y a los se del las un por",
    "it": "di e il la che in a per un del è della non",
    "pt": "de a o que e do da em um para com não uma",
    "nl": "de en van ik te dat die in een hij het niet zijn",
    "pl": "w i na z do się nie że to jest o od",
    "ru": "и в не на что с по как это из к он",
}


class GopherQuality(ThresholdFilter):
    """Keeps texts of a plausible length, made of words, with sentences rather than lists.

    The paper requires a letter in 80 % of the words. datatrove counts punctuation marks as words,
    so that news pages with many quotes and numbers fail. Here this rule splits at white space, and
    marks alone are no word, unless `letter_words` is `tokens`.

    60 times "word" -> rejected as `gopher_enough_stop_words`: no English stop word occurs
    """

    VERSION = 7
    thresholds: ClassVar[Mapping[str, str]] = {
        "gopher_short_doc": "words",
        "gopher_long_doc": "words",
        "gopher_below_avg_threshold": "mean_word_length",
        "gopher_above_avg_threshold": "mean_word_length",
        "gopher_too_many_hashes": "symbols_per_word",
        "gopher_too_many_ellipsis": "symbols_per_word",
        "gopher_too_many_bullets": "bullet_lines",
        "gopher_too_many_end_ellipsis": "ellipsis_lines",
        "gopher_below_alpha_threshold": "tokens_with_letter",
        "gopher_enough_stop_words": "stop_words",
    }

    @config_class
    class Options:
        """Thresholds, as published."""

        words: tuple[Natural, Natural] = (50, 100_000)
        """minimum and maximum number of words; in scripts without blanks, three characters count as
        one"""
        mean_word_length: tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]] = (
            3,
            10,
        )
        """minimum of the mean word length in characters, and maximum in letters, without marks such
        as vowel signs; no effect on texts in scripts without blanks"""
        symbols_per_word: Annotated[float, Field(ge=0)] = 0.1
        """maximum `#`, and maximum ellipses, per token"""
        bullet_lines: Share = 0.9
        """maximum fraction of lines that start with a bullet or a hyphen, 0 to 1"""
        ellipsis_lines: Share = 0.3
        """maximum fraction of lines that end in an ellipsis, 0 to 1"""
        tokens_with_letter: Share = 0.8
        """minimum fraction of words with a letter, 0 to 1; texts of fewer than 50 words pass"""
        letter_words: Literal["spaces", "tokens"] = "spaces"
        """words of this rule: split at white space, or datatrove's tokens, which include
        punctuation marks"""
        stop_words: Natural = 2
        """minimum number of distinct stop words, in any case; no effect below 50 words, and for
        languages without a list"""
        stop_words_from: Path | None = field(default=None, metadata=DATA_FILE)
        """folder of lists with one word per line: en.txt, de.txt, ...; they replace the lists of
        nine languages"""

    def __init__(self, options: Options) -> None:
        self._options = options
        folder = options.stop_words_from
        lists = _STOP_WORDS if folder is None else read_stop_words(folder)
        self._stop_words = LanguageTable(
            {language: frozenset(words.split()) for language, words in lists.items()}
        )

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the verdict of the first rule that fails; note a language without a list."""
        verdict = super().judge(document, statistics)
        is_off = (
            verdict is KEEP
            and self._options.stop_words
            and document.language not in self._stop_words
        )
        return Verdict(note="stop_words_unavailable") if is_off else verdict

    def measure(self, document: Document, statistics: TextStatistics) -> Iterator[Measure]:
        """Yield the measures, cheapest first."""
        text = statistics.text
        lines = statistics.lines
        options = self._options
        yield at_least("gopher_short_doc", statistics.words, options.words[0], "{} words")
        yield at_most("gopher_long_doc", statistics.words, options.words[1], "{} words")

        if statistics.has_blanks:
            shortest, longest = options.mean_word_length
            shown = "mean word length {:.2f}"
            yield at_least(
                "gopher_below_avg_threshold", statistics.mean_word_length, shortest, shown
            )
            yield at_most("gopher_above_avg_threshold", statistics.mean_letters, longest, shown)

        tokens = max(1, statistics.token_count)
        yield at_most("gopher_too_many_hashes", text.count("#") / tokens, options.symbols_per_word)
        ellipses = len(_ELLIPSES.findall(text))
        yield at_most("gopher_too_many_ellipsis", ellipses / tokens, options.symbols_per_word)

        bullets = sum([line.lstrip().startswith(("•", "-")) for line in lines])
        yield at_most("gopher_too_many_bullets", bullets / len(lines), options.bullet_lines)
        trailing = sum([line.endswith(("...", "…")) for line in lines])
        yield at_most("gopher_too_many_end_ellipsis", trailing / len(lines), options.ellipsis_lines)

        if statistics.words < _SHORT:
            return
        by_tokens = options.letter_words == "tokens"
        share = statistics.tokens_with_letter / tokens if by_tokens else statistics.letter_share
        yield at_least("gopher_below_alpha_threshold", share, options.tokens_with_letter)

        if (stop_words := self._stop_words.get(document.language)) is not None:
            distinct = statistics.count_stop_words(stop_words, document.language)
            yield at_least(
                "gopher_enough_stop_words", distinct, options.stop_words, "{} stop words"
            )
