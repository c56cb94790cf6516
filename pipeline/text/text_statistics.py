"""Compute text statistics for the quality filters: each at most once per document, on arrays."""

from functools import cached_property
from typing import NamedTuple

from clozeline.native.words import SplitText, split_words
from clozeline.pipeline.text.token_statistics import TableTokens, TokenNgrams
from clozeline.pipeline.text.word_tokens import word_rules


class Duplicates(NamedTuple):
    """Number of lines or paragraphs, of those that copy an earlier one, and of the characters in these copies."""

    pieces: int
    copies: int
    copied_chars: int


class TextStatistics:
    """Statistics of one text in stored form; tokens as in `word_tokens`, all lengths in characters."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def lines(self) -> list[str]:
        """All lines, including empty ones."""
        return self.text.split("\n")

    @cached_property
    def filled_lines(self) -> list[str]:
        """The lines that are not empty."""
        return [line for line in self.lines if line]

    @cached_property
    def duplicate_lines(self) -> Duplicates:
        """Duplicates among the non-empty lines."""
        return _count_duplicates(self.filled_lines)

    @cached_property
    def duplicate_paragraphs(self) -> Duplicates:
        """Duplicates among the paragraphs, which empty lines separate."""
        return _count_duplicates(self.text.split("\n\n"))

    @cached_property
    def _tokens(self) -> SplitText | TableTokens:
        return split_words(self.text, word_rules) or TableTokens(self.text)

    @cached_property
    def _ngrams(self) -> TokenNgrams:
        return TokenNgrams(self._tokens.number_tokens(), self._tokens.lengths)

    @property
    def visited(self) -> int:
        """Tokens and n-grams processed so far, which grows linearly with the text."""
        return self._tokens.visited + self._ngrams.visited

    @property
    def token_count(self) -> int:
        """Number of tokens."""
        return self._tokens.token_count

    @property
    def words(self) -> int:
        """Tokens with a letter or a digit."""
        return self._tokens.words

    @property
    def mean_word_length(self) -> float:
        """Mean length of the tokens with a letter or a digit; 0 without such tokens."""
        return self._tokens.word_chars / self.words if self.words else 0.0

    @property
    def tokens_with_letter(self) -> int:
        """Tokens with a letter."""
        return self._tokens.tokens_with_letter

    @property
    def letter_share(self) -> float:
        """Fraction of the whitespace-separated words that have a letter; 0 without words."""
        return self._tokens.letter_share

    def count_listed(self, words: frozenset[str]) -> int:
        """Return how many of some words are tokens."""
        return self._tokens.count_listed(words)

    def top_ngram_chars(self, n: int) -> int:
        """Return length times frequency of the most frequent n-gram, joined by blanks; n 2 to 10; ties: the first."""
        return self._ngrams.top_ngram_chars(n)

    def duplicate_ngram_chars(self, n: int) -> int:
        """Count the characters of n-grams that occurred earlier in the text; n 2 to 10; no token counts twice."""
        return self._ngrams.duplicate_ngram_chars(n)


def _count_duplicates(pieces: list[str]) -> Duplicates:
    distinct = set(pieces)
    copied = sum(map(len, pieces)) - sum(map(len, distinct)) if len(distinct) < len(pieces) else 0
    return Duplicates(len(pieces), len(pieces) - len(distinct), copied)
