"""Keyed randomness: every draw is a pure function of (seed, place), so order, batch and worker cannot matter.

Two kinds. Documents: `fraction` and `order_key` hash a document uid. Rows: a counter-based SplitMix64 stream,
keyed per row by (seed, name, variant, uid), gives arrays of words. No generator object exists anywhere.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from clozeline.arrays import UInt64

# One stream of words for each purpose: adding a draw to one never shifts another.
POSITIONS: Final = 0
ROLES: Final = 1
LENGTHS: Final = 2
SLOTS: Final = 3
ORDERS: Final = 4
LABELS: Final = 5
CROPS: Final = 6
MIXTURE: Final = 7
RATES: Final = 8

_GOLDEN: Final = 0x9E3779B97F4A7C15
_MASK: Final = 0xFFFFFFFFFFFFFFFF


def keyed_hash(*parts: bytes | str | int) -> int:
    """Return a 64-bit word from length-prefixed parts (ints as 8 bytes little-endian)."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        if isinstance(part, int):
            raw = (part & _MASK).to_bytes(8, "little")
        else:
            raw = part.encode() if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return int.from_bytes(digest.digest(), "little")


def fraction(uid: bytes, purpose: str, seed: int) -> float:
    """Return a number in [0, 1) that depends on the document, the purpose and the seed alone."""
    return order_key(uid, purpose, seed) / 2.0**64


def order_key(uid: bytes, purpose: str, seed: int) -> int:
    """Return a 64-bit word that orders documents, keyed by purpose and seed."""
    return xxhash.xxh3_64_intdigest(uid + purpose.encode() + struct.pack("<Q", seed & _MASK))


def sample_uid(document_uid: bytes, copy: int, offset: int, label: str) -> int:
    """Return the 64-bit sample uid of first document, copy, token offset in it, and the grouping's label."""
    return xxhash.xxh3_64_intdigest(document_uid + struct.pack("<IQ", copy, offset) + label.encode())


def mix(x: UInt64) -> UInt64:
    """Apply the 64-bit SplitMix finaliser (a bijection), element by element."""
    x = x ^ (x >> np.uint64(30))
    x = x * np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def kernel_base(seed: int, name: str, variant: int) -> int:
    """Return what the keys of all rows of one name and variant share."""
    packed = struct.pack("<Q", seed & _MASK) + name.encode() + b"\0" + struct.pack("<I", variant)
    return int.from_bytes(hashlib.blake2b(packed).digest()[:8], "little")


def kernel_keys(seed: int, name: str, uids: UInt64, variants: NDArray[np.uint16]) -> UInt64:
    """Return one key a row: mix(mix(uid) ^ base), with base = blake2b(seed, name, variant)."""
    base = np.empty(len(uids), dtype=np.uint64)
    for variant in np.unique(variants):
        base[variants == variant] = kernel_base(seed, name, int(variant))
    return mix(mix(uids.astype(np.uint64, copy=False)) ^ base)


def words(keys: UInt64, stream: int, count: int, start: int = 0) -> UInt64:
    """Return words `start .. start + count` of a stream for each key, shape [len(keys), count].

    word(key, stream, j) = mix(key + G * (2**32 * stream + j + 1)).
    """
    first = (stream << 32) + start + 1
    steps = np.arange(first, first + count, dtype=np.uint64) * np.uint64(_GOLDEN)
    return mix(keys[:, None] + steps[None, :])


def word_of(base: int, uid: int, stream: int, index: int) -> int:
    """Return one word of one row in plain integers, as `words(kernel_keys(...))` does for many rows at once."""
    key = _mix_one(_mix_one(uid) ^ base)
    return _mix_one((key + _GOLDEN * ((stream << 32) + index + 1)) & _MASK)


def _mix_one(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def reversed_bits(numbers: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Return 16-bit numbers with their bits in reverse order: 1 is 32768, 2 is 16384, 3 is 49152."""
    for shift, mask in ((8, 0x00FF), (4, 0x0F0F), (2, 0x3333), (1, 0x5555)):
        bits, low = np.uint16(shift), np.uint16(mask)
        numbers = ((numbers >> bits) & low) | ((numbers & low) << bits)
    return numbers


def below(word32: UInt64, bound: int | UInt64) -> NDArray[np.int64]:
    """Return uniform integers in 0..bound-1 from 32-bit words: (u * bound) >> 32."""
    return ((word32 * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)
