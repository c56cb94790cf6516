"""Quality rules of Gopher (Rae et al. 2021, arXiv:2112.11446, table A1)."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.pipeline.clean.filters import KEEP, Verdict
from clozeline.pipeline.text.text_statistics import TextStatistics

Share = Annotated[float, Field(ge=0, le=1)]

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


class GopherQuality:
    """Keeps texts of a plausible length, made of words, with sentences rather than lists.

    The paper wants 80 % words with a letter. datatrove counts punctuation marks as words there, so that news pages with
    many quotes and numbers fail; here white space divides the words of this rule, unless `letter_words: tokens`.

    60 times "word" -> rejected as `gopher_enough_stop_words`: no stop word of English occurs
    """

    VERSION: ClassVar[int] = 3
    reasons: ClassVar[tuple[str, ...]] = (
        "gopher_short_doc", "gopher_long_doc", "gopher_below_avg_threshold", "gopher_above_avg_threshold",
        "gopher_too_many_hashes", "gopher_too_many_ellipsis", "gopher_too_many_bullets",
        "gopher_too_many_end_ellipsis", "gopher_below_alpha_threshold", "gopher_enough_stop_words",
    )  # fmt: skip

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """Thresholds, as published."""

        words: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]] = (50, 100_000)
        """fewest and most words"""
        mean_word_length: tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]] = (3, 10)
        """least and greatest mean length of words in characters"""
        symbols_per_word: Annotated[float, Field(ge=0)] = 0.1
        """most `#`, and most ellipses, per token"""
        bullet_lines: Share = 0.9
        """largest share of lines that begin with a bullet or a hyphen, 0 to 1"""
        ellipsis_lines: Share = 0.3
        """largest share of lines that end in an ellipsis, 0 to 1"""
        tokens_with_letter: Share = 0.8
        """least share of words with a letter, 0 to 1"""
        letter_words: Literal["spaces", "tokens"] = "spaces"
        """words of that share: what white space divides, or datatrove's tokens, where each punctuation mark is one"""
        stop_words: Annotated[int, Field(ge=0)] = 2
        """fewest different stop words; of no effect in languages without a list"""
        stop_word_lists: dict[str, list[str]] = field(
            default_factory=lambda: {language: words.split() for language, words in _STOP_WORDS.items()}
        )
        """stop words by language code; case counts"""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._stop_words = {language: frozenset(words) for language, words in options.stop_word_lists.items()}

    def judge(self, statistics: TextStatistics, language: str) -> Verdict:
        """Return the verdict of the first rule that fails; the cheapest rules run first."""
        return self._by_words(statistics) or self._by_lines(statistics) or self._by_kind(statistics, language) or KEEP

    def _by_words(self, statistics: TextStatistics) -> Verdict | None:
        words, mean = statistics.words, statistics.mean_word_length
        minimum, maximum = self._options.words
        shortest, longest = self._options.mean_word_length
        if words < minimum:
            return Verdict("gopher_short_doc", f"{words} words < {minimum}")
        if words > maximum:
            return Verdict("gopher_long_doc", f"{words} words > {maximum}")
        if mean < shortest:
            return Verdict("gopher_below_avg_threshold", f"mean word length {mean:.2f} < {shortest}")
        if mean > longest:
            return Verdict("gopher_above_avg_threshold", f"mean word length {mean:.2f} > {longest}")
        return None

    def _by_lines(self, statistics: TextStatistics) -> Verdict | None:
        text, lines, options = statistics.text, statistics.lines, self._options
        tokens = max(1, len(statistics.tokens))
        hashes = text.count("#") / tokens
        if hashes > options.symbols_per_word:
            return Verdict("gopher_too_many_hashes", f"{hashes:.3f} > {options.symbols_per_word}")
        ellipses = (text.count("...") + text.count("…")) / tokens
        if ellipses > options.symbols_per_word:
            return Verdict("gopher_too_many_ellipsis", f"{ellipses:.3f} > {options.symbols_per_word}")
        bullets = sum([line.lstrip().startswith(("•", "-")) for line in lines]) / len(lines)
        if bullets > options.bullet_lines:
            return Verdict("gopher_too_many_bullets", f"{bullets:.3f} > {options.bullet_lines}")
        trailing = sum([line.endswith(("...", "…")) for line in lines]) / len(lines)
        if trailing > options.ellipsis_lines:
            return Verdict("gopher_too_many_end_ellipsis", f"{trailing:.3f} > {options.ellipsis_lines}")
        return None

    def _by_kind(self, statistics: TextStatistics, language: str) -> Verdict | None:
        share = statistics.letter_share
        if self._options.letter_words == "tokens":
            share = statistics.tokens_with_letter / max(1, len(statistics.tokens))
        if share < self._options.tokens_with_letter:
            return Verdict("gopher_below_alpha_threshold", f"{share:.3f} < {self._options.tokens_with_letter}")
        wanted = self._stop_words.get(language)
        if wanted is None:
            return None
        stop_words = len(wanted.intersection(statistics.distinct_tokens))
        if stop_words < self._options.stop_words:
            return Verdict("gopher_enough_stop_words", f"{stop_words} stop words < {self._options.stop_words}")
        return None
