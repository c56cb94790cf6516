"""Native word hashes, signatures and band keys; None if the caller must use numpy."""

from collections.abc import Sequence
from ctypes import c_char_p, c_int64
from typing import Final

import numpy as np

from clozeline.arrays import UInt64
from clozeline.native.library import Function, array_of, is_available

_U64: Final = array_of(np.uint64)
_word_hashes: Final = Function(
    "clozeline_word_hashes",
    *(c_char_p, c_int64, _U64),
    returns=c_int64,
)
_signatures: Final = Function(
    "clozeline_signatures",
    *(c_char_p, array_of(np.int64), c_int64, c_int64),
    *(_U64, _U64, c_int64, _U64, _U64),
)
_band_keys: Final = Function("clozeline_band_keys", _U64, c_int64, c_int64, c_int64, _U64)
_LONGEST_HASHED: Final = 128
"""Most bytes of a hashed word, as `kLongestHashed` in hashing.h."""


def word_hashes(folded: bytes) -> UInt64 | None:
    """Return the hash of each word of a folded text, shape [words]."""
    if not is_available():
        return None
    hashes = np.empty(len(folded), np.uint64)
    return hashes[: _word_hashes(folded, len(folded), hashes)]


def signatures(
    folded: Sequence[bytes], ngram: int, factors: UInt64, offsets: UInt64
) -> UInt64 | None:
    """Return the minima of `shingle * factor + offset` mod 2**64, shape [texts, factors].

    The shingles of a text are its runs of `ngram` words, or all words if there are fewer.
    """
    if not is_available():
        return None
    if ngram < 1 or factors.shape != offsets.shape:
        raise ValueError(
            f"expected ngram ≥ 1, and as many offsets as factors, got {ngram}, {offsets.shape} and "
            f"{factors.shape}"
        )
    sizes = np.array([len(text) for text in folded], np.int64)
    words = np.empty(max(1, sizes.max(initial=0)), np.uint64)
    minima = np.empty((len(folded), len(factors)), np.uint64)
    texts = (b"".join(folded), np.cumsum(sizes), len(folded))
    _signatures(*texts, ngram, factors, offsets, len(factors), words, minima)
    return minima


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
