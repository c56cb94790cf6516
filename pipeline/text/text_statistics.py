"""Compute text statistics for the quality filters, at most once per document, on arrays."""

import re
from functools import cached_property
from itertools import filterfalse
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError, StorageError
from clozeline.files import read_text
from clozeline.pipeline.text.language_codes import base_language
from clozeline.pipeline.text.line_ends import LineEnds
from clozeline.pipeline.text.normal_form import count_characters_without_blanks, split_at_blanks
from clozeline.pipeline.text.word_tokens import TokenTable, shared_table
from clozeline.pipeline.text.wrapped_lines import group_lines, join_paragraph

UNSPACED_LANGUAGES: Final = frozenset({"zh", "ja", "th", "lo", "km", "my"})
"""Languages without blanks between words; their stop words are searched as strings."""


_CHARACTERS: Final = re.compile("[0-9]+|[^0-9]")
_RULERS: Final = "=_*─━═…"


class Duplicates(NamedTuple):
    """Number of lines or paragraphs, of copies among them, and of the characters in the copies.

    A copy repeats an earlier line or paragraph.
    """

    pieces: int
    copies: int
    copied_chars: int


_Repeats: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The n-grams that occur more than once: ascending token positions, and their group ids."""


class TextStatistics:
    """Statistics of a text in stored form; tokens as in `word_tokens`, lengths in characters.

    With `as_written`, a line of a hard-wrapped paragraph is judged alone.
    """

    def __init__(self, text: str, *, as_written: bool = False) -> None:
        self.text = text
        self.as_written = as_written
        self._repeats: dict[int, _Repeats] = {}

    @cached_property
    def line_groups(self) -> list[list[str]]:
        """The groups of lines that are judged together.

        The lines of a hard-wrapped paragraph form a group, and each other line is a group.
        """
        lines = self.text.split("\n")
        if self.as_written:
            return [[line] for line in lines]
        return group_lines(lines)

    @cached_property
    def lines(self) -> list[str]:
        """All lines, including empty ones; a hard-wrapped paragraph is one line."""
        line_ends = LineEnds(self.text)
        return [join_paragraph(group, line_ends) for group in self.line_groups]

    @cached_property
    def nonempty_lines(self) -> list[str]:
        """The lines that are not empty."""
        return [line for line in self.lines if line]

    @cached_property
    def duplicate_lines(self) -> Duplicates:
        """Duplicates among the lines with a letter or a digit."""
        return _count_duplicates([line for line in self.lines if any(map(str.isalnum, line))])

    @cached_property
    def duplicate_paragraphs(self) -> Duplicates:
        """Duplicates among the paragraphs, which are separated by empty lines."""
        return _count_duplicates("\n".join(self.lines).split("\n\n"))

    @cached_property
    def _chunks(self) -> list[str]:
        return split_at_blanks(self.text)

    @cached_property
    def _tokens(self) -> tuple[TokenTable, NDArray[np.int64]]:
        """The table of the tokens, and the id of each token in it, shape [tokens]."""
        table = shared_table()
        return table, table.ids_of(self._chunks)

    def _column(self, name: str) -> NDArray[np.int64]:
        """Return a column of the table for the tokens of the text, shape [tokens]."""
        table, ids = self._tokens
        return table.columns[name][ids]

    @property
    def token_count(self) -> int:
        """Number of tokens."""
        return len(self._tokens[1])

    @cached_property
    def words(self) -> int:
        """Number of words: tokens with a letter or a digit.

        In scripts without blanks, three characters count as a word.
        """
        return int(self._column("word_counts").sum())

    @cached_property
    def _word_tokens(self) -> int:
        return int(np.count_nonzero(self._column("word_counts")))

    @property
    def has_blanks(self) -> bool:
        """Whether blanks separate most of the words, so that word lengths are meaningful."""
        return 2 * self._word_tokens >= self.words

    @property
    def mean_word_length(self) -> float:
        """Mean length of the tokens with a letter or a digit, in characters; 0 without any.

        A Korean syllable counts as two characters.
        """
        return int(self._column("sizes").sum()) / max(1, self._word_tokens)

    @property
    def mean_letters(self) -> float:
        """Mean length of these tokens without combining marks, such as the vowel signs of Tamil."""
        return int(self._column("letters").sum()) / max(1, self._word_tokens)

    @cached_property
    def tokens_with_letter(self) -> int:
        """Number of tokens with a letter."""
        return int(self._column("has_letter").sum())

    @cached_property
    def letter_share(self) -> float:
        """Fraction of the whitespace-separated words that have a letter; 0 without words.

        Marks alone, such as a ruler, are no word. In scripts without blanks, each character or
        number is a word.
        """
        words = self._chunks
        joined = "".join(words)
        if 2 * count_characters_without_blanks(joined) > len(joined):
            words = _CHARACTERS.findall(joined)
        numbers = marks = 0
        for word in filterfalse(str.isalpha, words):  # most words are letters only
            if not any(map(str.isalpha, word)):
                is_number = any(map(str.isalnum, word))
                numbers += is_number
                marks += not is_number
        count = len(words) - marks
        return (count - numbers) / max(1, count)

    def count_stop_words(self, words: frozenset[str], language: str) -> int:
        """Return how many of these lower-case words are tokens of the text, in any case.

        In languages without blanks, they are searched as strings.
        """
        if base_language(language) in UNSPACED_LANGUAGES:
            return sum(word in self.text for word in words)
        table, ids = self._tokens
        return len(words.intersection(table.tokens[number].lower() for number in set(ids.tolist())))

    @cached_property
    def _run_tokens(self) -> tuple[TokenTable, NDArray[np.int64]]:
        """The tokens, with one mark for a run of equal marks of a ruler or a blank to fill in."""
        table, ids = self._tokens
        marks = np.isin(ids[1:], [table.add(mark) for mark in _RULERS])
        return table, ids[np.append(True, (ids[1:] != ids[:-1]) | ~marks)[: len(ids)]]

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Characters in `_run_tokens` before each token, and the total, shape [tokens + 1]."""
        table, ids = self._run_tokens
        starts = np.zeros(len(ids) + 1, dtype=np.int64)
        np.cumsum(table.columns["lengths"][ids], out=starts[1:])
        return starts

    def _find_repeats(self, n: int) -> _Repeats:
        """Return the n-grams of tokens that occur more than once.

        An n-gram can only repeat where both of its (n-1)-grams do, so n only looks at the repeats
        of n - 1: in prose almost none from n = 5 on. Groups are exact, without hashing.
        """
        if n in self._repeats:
            return self._repeats[n]

        if n == 1:
            repeats = _group_repeats(self._run_tokens[1])
        else:
            at, groups = self._find_repeats(n - 1)
            # repeated (n-1)-grams at consecutive positions: their two groups identify the n-gram
            near = np.flatnonzero(at[1:] == at[:-1] + 1)
            pairs = groups[near] * (self.token_count + 1) + groups[near + 1]
            kept, repeated = _group_repeats(pairs)
            repeats = at[near[kept]], repeated

        self._repeats[n] = repeats
        return repeats

    def top_ngram_chars(self, n: int) -> int:
        """Return length times frequency of the most frequent n-gram, joined by blanks; n 2 to 10.

        The first of equally frequent n-grams counts; without a repeated n-gram the result is 0.
        """
        at, groups = self._find_repeats(n)
        if not len(at):
            return 0
        counts = np.bincount(groups)[groups]
        first = int(counts.argmax())
        start = int(at[first])
        return int(self._starts[start + n] - self._starts[start] + n - 1) * int(counts[first])

    def duplicate_ngram_chars(self, n: int) -> int:
        """Count the characters of n-grams that occurred earlier, each token once; n 2 to 10."""
        at, groups = self._find_repeats(n)
        if not len(at):
            return 0
        seen: set[int] = set()
        chars = free = 0

        for position, group in zip(at.tolist(), groups.tolist(), strict=True):
            if position < free:
                continue
            if group in seen:
                chars += int(self._starts[position + n] - self._starts[position])
                free = position + n
            else:
                seen.add(group)

        return chars


def _count_duplicates(pieces: list[str]) -> Duplicates:
    distinct = set(pieces)
    copied = sum(map(len, pieces)) - sum(map(len, distinct))
    return Duplicates(len(pieces), len(pieces) - len(distinct), copied)


def _group_repeats(values: NDArray[np.int64]) -> _Repeats:
    """Return the indices of the values that occur more than once, and the group id of each."""
    if len(values) < 2:
        return values[:0], values[:0]  # in prose soon, and in no time
    _, groups, counts = np.unique(values, return_inverse=True, return_counts=True)
    kept = np.flatnonzero(counts[groups] > 1)
    return kept, groups[kept]


def read_stop_words(folder: Path) -> dict[str, str]:
    """Return the lists of stop words of a folder, in lower case, by language code.

    Raises:
        ConfigurationError: if the folder has no lists.
        StorageError: if a list cannot be read.
    """
    files = sorted(folder.glob("*.txt"))
    if not files:
        raise ConfigurationError(
            f"stop_words_from: {folder}: expected files such as en.txt with a word per line, got "
            "no file"
        )
    try:
        return {file.stem: read_text(file).lower() for file in files}
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{folder}: {error}") from error
