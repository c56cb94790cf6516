"""Native splitting of texts into words; None where the caller must take its Python form."""

import re
import string
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_char_p, c_int64
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.native.library import Function, array_of, is_available

_I32: Final = array_of(np.int32)
_I64: Final = array_of(np.int64)
_U32: Final = array_of(np.uint32)
_list_words: Final = Function("clozeline_list_words", _I32, c_int64, _I32, c_int64)
_split: Final = Function(
    "clozeline_split_words", c_char_p, c_int64, _U32, _I32, c_int64, _I32, _I32, _I32, _I64, returns=c_int64
)
_number: Final = Function(
    "clozeline_number_tokens", c_char_p, _I32, _I32, c_int64, _I32, c_int64, _I32, _I32, returns=c_int64
)
_count_listed: Final = Function(
    "clozeline_count_listed", c_char_p, _I32, _I32, c_int64, c_char_p, _I32, c_int64, _I32, c_int64, returns=c_int64
)
_keep_letters: Final = Function("clozeline_keep_letters", c_char_p, c_int64, _U32, array_of(np.uint32), returns=c_int64)
_CODES: Final = 0x110000
_PAGE: Final = 256
_LETTER_BITS: Final = 16  # kLetterBits of words.cpp
_LONGEST_LISTED: Final = 7  # characters; kLongestListed
_LETTERS: Final = re.compile("|".join(f"({letter})" for letter in string.ascii_lowercase), re.IGNORECASE)


class WordRules:
    """Classes of characters and listed words with their flags: what the rules of words take from Python.

    `predicates` say whether a character is of a class, in the order of the bits of words.cpp. They are asked about 256
    characters when a text has the first of them, so the tables are those of the Python that runs.
    """

    def __init__(self, predicates: Sequence[Callable[[str], object]], words: Mapping[str, int]) -> None:
        self._predicates = predicates
        self.classes = np.zeros(_CODES, np.uint32)
        self.rows = np.zeros((len(words), _LONGEST_LISTED + 2), np.int32)
        for row, (word, flags) in zip(self.rows, words.items(), strict=True):
            row[: len(word) + 2] = [len(word), flags, *map(ord, word)]
        self.slots = np.zeros(4 << len(words).bit_length(), np.int32)
        _list_words(self.rows, len(self.rows), self.slots, len(self.slots))

    def learn(self, code: int) -> None:
        """Find the classes of the characters of a page."""
        start = code - code % _PAGE
        page = "".join(map(chr, range(start, start + _PAGE)))
        bits = np.ones(_PAGE, np.uint32)
        for bit, holds in enumerate(self._predicates, 1):
            bits |= np.fromiter(map(bool, map(holds, page)), np.uint32, _PAGE) << np.uint32(bit)
        for found in _LETTERS.finditer(page):
            bits[found.start()] |= np.uint32((found.lastindex or 0) << _LETTER_BITS)
        self.classes[start : start + _PAGE] = bits


class SplitText:
    """The tokens of a text: `starts` and `lengths` in characters, and what is counted while it is split."""

    def __init__(self, text: str, rules: WordRules) -> None:
        self._codes = encode(text)
        starts, lengths = np.empty((2, len(text)), np.int32)
        counts = np.empty(6, np.int64)
        known = (rules.classes, rules.slots, len(rules.slots), rules.rows)
        while missing := _split(self._codes, len(text), *known, starts, lengths, counts):
            rules.learn(-1 - missing)
        self.token_count, self.words, self.word_chars, self.tokens_with_letter, chunks, with_letter = counts.tolist()
        self.letter_share = with_letter / max(1, chunks)
        self.starts, self.lengths = starts[: self.token_count], lengths[: self.token_count]
        self.visited = self.token_count

    def count_listed(self, words: frozenset[str]) -> int:
        """Return how many of some different words are tokens of the text."""
        listed, ends = _encode_words(words)
        slots = np.zeros(2 << len(words).bit_length(), np.int32)
        tokens = (self._codes, self.starts, self.lengths, self.token_count)
        return int(_count_listed(*tokens, listed, ends, len(words), slots, len(slots)))

    def number_tokens(self) -> NDArray[np.int64]:
        """Return an id for each token, from 0 on: equal tokens have equal ids."""
        ids, firsts = np.empty((2, self.token_count), np.int32)
        slots = np.zeros(2 << self.token_count.bit_length(), np.int32)
        _number(self._codes, self.starts, self.lengths, self.token_count, slots, len(slots), ids, firsts)
        return ids.astype(np.int64)


def keep_letters(text: str, rules: Callable[[], WordRules]) -> str | None:
    r"""Return the characters of a text that are `[^\W\d_]`."""
    if not is_available():
        return None
    kept = np.empty(len(text), np.uint32)
    while (count := _keep_letters(encode(text), len(text), rules().classes, kept)) < 0:
        rules().learn(-1 - count)
    return kept[:count].tobytes().decode("utf-32-le", "surrogatepass")


def encode(text: str) -> bytes:
    """Return the code points of a text, 4 bytes each, as the compiled functions read them."""
    return text.encode("utf-32-le", "surrogatepass")


@cache
def _encode_words(words: frozenset[str]) -> tuple[bytes, NDArray[np.int32]]:
    return encode("".join(words)), np.cumsum([0, *map(len, words)], dtype=np.int32)


def split_words(text: str, rules: Callable[[], WordRules]) -> SplitText | None:
    """Return the tokens of a text."""
    return SplitText(text, rules()) if is_available() and len(text) < 1 << 30 else None
