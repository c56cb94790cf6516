"""Hash words and word n-grams of the match form, to find near-duplicates and contamination."""

from typing import Final

import numpy as np
import xxhash

from clozeline.arrays import UInt64
from clozeline.native import minhash
from clozeline.pipeline.text.normal_form import PartCache, find_words

_BASE: Final = 0x9E3779B97F4A7C15
_HASHED_BYTES: Final = 128
"""Bytes that are hashed at once, as `kLongestHashed` of the compiled module."""


def hash_words(folded: bytes) -> UInt64:
    """Return the hash of each word of a folded text, shape [words]."""
    native = minhash.word_hashes(folded)
    return np.frombuffer(digest_words(folded), "<u8") if native is None else native


def digest_words(folded: bytes) -> bytes:
    """Return the hashes of the words of a folded text, 8 bytes each."""
    return b"".join(map(_DIGESTS.__getitem__, folded.split()))


def _digest_token(token: bytes) -> bytes:
    words = find_words(token)
    hashes = (hash_bytes(word.encode(errors="surrogatepass")) for word in words)
    return b"".join(value.to_bytes(8, "little") for value in hashes)


_DIGESTS: Final = PartCache(_digest_token)


def hash_bytes(data: bytes) -> int:
    """Return the XXH3-64 of 128 bytes at a time; the seed is the hash of those before them."""
    value = 0
    for start in range(0, len(data), _HASHED_BYTES):
        value = xxhash.xxh3_64_intdigest(data[start : start + _HASHED_BYTES], value)
    return value


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
