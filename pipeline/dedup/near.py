"""MinHash signatures and band keys for near-duplicates (Broder 1997; bands: Leskovec et al., chapter 3).

A text is the set of its word n-grams in the match form. Each of `bands * rows` hash functions keeps its minimum over
the set; two texts agree in a minimum with probability J, the Jaccard similarity of their sets. Texts that agree in all
rows of a band are candidates: P(J) = 1 - (1 - J**rows)**bands, one half at J = 0.685 for 14 x 8.
"""

from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from clozeline.arrays import UInt64
from clozeline.native import minhash
from clozeline.pipeline.text.normal_form import match_words
from clozeline.pipeline.text.word_hashes import WordHashes, ngram_hashes
from clozeline.seeding import mix

NEAR_VERSION: Final = 1
"""Raised when a signature, and so a decision, changes."""

_BLOCK: Final = 256  # shingles hashed at once: 256 x 112 x 8 bytes fit into the L2 cache


class MinHash:
    """Computes signatures of texts: sets of shingles of `ngram` words; a text with fewer words is one shingle."""

    def __init__(self, ngram: int = 5, bands: int = 14, rows: int = 8, seed: int = 1) -> None:
        self.ngram, self.bands, self.rows = ngram, bands, rows
        # raw bits, which unlike the methods of Generator never change between numpy versions
        raw = np.random.PCG64(seed).random_raw(2 * bands * rows).reshape(2, -1)
        self._factors = raw[0] | np.uint64(1)  # odd, so that multiplication modulo 2**64 is a bijection
        self._offsets = raw[1]
        self._words = WordHashes()
        self._buffer = np.empty((_BLOCK, bands * rows), dtype=np.uint64)

    def shingles(self, text: str) -> UInt64:
        """Return a 64-bit hash per word n-gram, with repetitions, which do not change a minimum."""
        hashes = self._words.hashes(text)
        if len(hashes) < self.ngram:
            words = " ".join(match_words(text)) or text
            return np.array([xxhash.xxh3_64_intdigest(words.encode())], dtype=np.uint64)
        native = minhash.shingles(hashes, self.ngram)
        return mix(ngram_hashes(hashes, self.ngram)) if native is None else native

    def signature(self, text: str) -> UInt64:
        """Return the minima of all hash functions over the text's shingles, shape [bands * rows]."""
        shingles = self.shingles(text)
        if (native := minhash.minima(shingles, self._factors, self._offsets)) is not None:
            return native
        minima = np.full(len(self._factors), 2**64 - 1, dtype=np.uint64)
        for start in range(0, len(shingles), _BLOCK):
            block = shingles[start : start + _BLOCK]
            values = self._buffer[: len(block)]
            np.multiply(block[:, None], self._factors, out=values)
            np.add(values, self._offsets, out=values)
            np.minimum(minima, values.min(axis=0), out=minima)
        return minima

    def band_keys(self, signatures: UInt64) -> UInt64:
        """Return a 64-bit key per band of signatures [..., bands * rows], shape [..., bands]; the band is its seed."""
        keys = minhash.band_keys(signatures.reshape(-1, self.bands * self.rows), self.bands, self.rows)
        if keys is None:
            raw, width = memoryview(signatures.tobytes()), 8 * self.rows
            bands = range(len(raw) // width)
            hashes = [xxhash.xxh3_64_intdigest(raw[b * width : (b + 1) * width], seed=b % self.bands) for b in bands]
            keys = np.array(hashes, dtype=np.uint64)
        return keys.reshape(*signatures.shape[:-1], self.bands)


def sketch(signature: UInt64) -> NDArray[np.uint16]:
    """Return the low 16 bits of each minimum, enough to estimate similarity (b-bit MinHash, arXiv 0910.3349)."""
    return signature.astype(np.uint16)


def estimate_similarities(left: NDArray[np.uint16], right: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return the estimated Jaccard similarity of sketches [n, functions], row by row; standard error below 0.05."""
    likeness: NDArray[np.float32] = np.mean(left == right, axis=1, dtype=np.float32)
    return likeness
