"""Hash words and word n-grams of the match form, to find near-duplicates and contamination."""

from typing import Final

import numpy as np
import xxhash

from clozeline.arrays import UInt64
from clozeline.native import minhash
from clozeline.pipeline.text.normal_form import MatchForm, match_words

_MOST_CACHED: Final = 1_000_000
_CACHED_CHARACTERS: Final = 64  # longer tokens rarely recur, and one may be an entire document
_BASE: Final = 0x9E3779B97F4A7C15


class _WordHashes(dict[str, bytes]):
    """Cache of the XXH3-64 hashes of match-form words, big-endian."""

    def __missing__(self, word: str) -> bytes:
        if len(self) >= _MOST_CACHED:
            self.clear()
        value = xxhash.xxh3_64_digest(word.encode())
        self[word] = value
        return value


class WordHashes(dict[str, bytes]):
    """Hashes the words of texts, with a cache of tokens (the strings between blanks).

    No match-form word crosses a blank and most tokens recur, so only new tokens are normalized.
    """

    def __init__(self, form: MatchForm = "words") -> None:
        super().__init__()
        self._form = form
        self._words = _WordHashes()

    def __missing__(self, token: str) -> bytes:
        if len(self) >= _MOST_CACHED:
            self.clear()
        value = b"".join(map(self._words.__getitem__, match_words(token, self._form)))
        if len(token) <= _CACHED_CHARACTERS:
            self[token] = value
        return value

    def digests(self, text: str) -> bytes:
        """Return the hashes of the words of `match_words`: 8 bytes each, big-endian."""
        return b"".join(map(self.__getitem__, text.split()))

    def hashes(self, text: str) -> UInt64:
        """Return the hashes of the words of `match_words`, shape [words]."""
        native = minhash.word_hashes(text, self.__getitem__) if self._form == "words" else None
        return unpack_hashes(self.digests(text)) if native is None else native


def unpack_hashes(digests: bytes) -> UInt64:
    """Return the hashes in the concatenated digests of texts, shape [words]."""
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def hash_ngrams(words: UInt64, ngram: int) -> UInt64:
    """Return a polynomial hash of each n-gram, shape [words - ngram + 1], or [0] if too short.

    It doubles the length of the n-grams: h(i, 2n) = h(i, n) * base**n + h(i + n, n) modulo 2**64.
    """
    combined = words
    length = 1
    for bit in f"{ngram:b}"[1:]:
        combined = combined[:-length] * np.uint64(pow(_BASE, length, 2**64)) + combined[length:]
        length *= 2
        if bit == "1":
            combined = combined[:-1] * np.uint64(_BASE) + words[length:]
            length += 1
    return combined
