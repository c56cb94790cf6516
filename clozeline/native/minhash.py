"""Native word hashes, shingles, minima and band keys; None if the caller must use numpy."""

from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int64
from typing import Final

import numpy as np

from clozeline.arrays import UInt64
from clozeline.native.library import Function, array_of, is_available

_U64: Final = array_of(np.uint64)
_word_hashes: Final = Function(
    "clozeline_word_hashes",
    c_char_p,
    c_int64,
    _U64,
    array_of(np.int64),
    c_int64,
    POINTER(c_int64),
    returns=c_int64,
)
_shingles: Final = Function("clozeline_shingles", _U64, c_int64, c_int64, _U64)
_minima: Final = Function("clozeline_minima", _U64, c_int64, _U64, _U64, c_int64, _U64)
_band_keys: Final = Function("clozeline_band_keys", _U64, c_int64, c_int64, c_int64, _U64)
_BYTES_PER_TOKEN: Final = 24
"""Texts with more non-ASCII tokens than one in this many bytes are left to Python."""
_LONGEST_HASHED: Final = 128
"""Most bytes of a hashed word, as `kLongestHashed` in hashing.h."""


def word_hashes(text: str, digests: Callable[[str], bytes]) -> UInt64 | None:
    """Return the XXH3-64 of each match-form word; None for texts that are mostly not ASCII.

    `digests` returns the hashes of the words of a token, 8 big-endian bytes each. It is called for
    tokens (separated by ASCII blanks) that are not ASCII or very long.
    """
    if not is_available():
        return None
    data = text.encode(errors="surrogatepass")
    hashes = np.empty((len(data) + 1) // 2, np.uint64)
    rest = np.empty((8 + len(data) // _BYTES_PER_TOKEN, 3), np.int64)
    others = c_int64()
    count = _word_hashes(data, len(data), hashes, rest, len(rest), byref(others))
    if count < 0:
        return None
    if not others.value:
        return hashes[:count]
    # insert the words of the other tokens before the words that follow them
    tokens = rest[: others.value].tolist()
    hashed = [digests(data[start:end].decode(errors="surrogatepass")) for start, end, _ in tokens]
    before = np.repeat(rest[: others.value, 2], [len(digest) // 8 for digest in hashed])
    merged = np.empty(count + len(before), np.uint64)
    is_native = np.ones(len(merged), np.bool_)
    positions = before + np.arange(len(before))
    is_native[positions] = False
    merged[positions] = np.frombuffer(b"".join(hashed), ">u8")
    merged[is_native] = hashes[:count]
    return merged


def shingles(words: UInt64, ngram: int) -> UInt64 | None:
    """Return the mixed hash of each `ngram` consecutive words, shape [words - ngram + 1]."""
    if not is_available() or not 1 <= ngram <= len(words):
        return None
    hashes = np.empty(len(words) - ngram + 1, np.uint64)
    _shingles(np.ascontiguousarray(words), len(words), ngram, hashes)
    return hashes


def minima(values: UInt64, factors: UInt64, offsets: UInt64) -> UInt64 | None:
    """Return the minima of `value * factor + offset` mod 2**64 over all values, shape [factors]."""
    if not is_available():
        return None
    if factors.shape != offsets.shape:
        raise ValueError(
            f"expected as many offsets as factors, got {offsets.shape} and {factors.shape}"
        )
    least = np.empty(len(factors), np.uint64)
    _minima(np.ascontiguousarray(values), len(values), factors, offsets, len(factors), least)
    return least


def band_keys(signatures: UInt64, bands: int, rows: int) -> UInt64 | None:
    """Return the XXH3-64 of each band, with the band as seed, shape [n, bands]."""
    if not is_available() or not 0 < 8 * rows <= _LONGEST_HASHED:
        return None
    if signatures.shape[1:] != (bands * rows,):
        raise ValueError(
            f"expected signatures of {bands * rows} minima, got shape {signatures.shape}"
        )
    keys = np.empty((len(signatures), bands), np.uint64)
    _band_keys(np.ascontiguousarray(signatures), len(signatures), bands, rows, keys)
    return keys
