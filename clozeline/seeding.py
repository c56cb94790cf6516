"""Counter-based randomness: every draw depends only on its key.

Draws do not depend on order, batch or worker, and there is no generator state. For documents,
`fraction` and `order_key` hash the document uid. For rows, a counter-based SplitMix64 stream per
row, keyed by (seed, name, variant, uid), gives arrays of random bits.
"""

import hashlib
import struct
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from clozeline.arrays import UInt64

# One random stream for each purpose: an additional draw in one stream never shifts another.
POSITIONS: Final = 0
ROLES: Final = 1
LENGTHS: Final = 2
SLOTS: Final = 3
ORDERS: Final = 4
LABELS: Final = 5
CROPS: Final = 6
MIXTURE: Final = 7
RATES: Final = 8
TEACHER: Final = 9

_GOLDEN: Final = 0x9E3779B97F4A7C15
_MASK: Final = 0xFFFFFFFFFFFFFFFF


def hash64(*parts: bytes | str | int) -> int:
    """Return the 64-bit hash of length-prefixed parts (ints as 8 bytes little-endian)."""
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
    """Return a uniform number in [0, 1) for a document, a purpose and a seed."""
    return order_key(uid, purpose, seed) / 2.0**64


def order_key(uid: bytes, purpose: str, seed: int) -> int:
    """Return the 64-bit sort key of a document for a purpose and a seed."""
    return xxhash.xxh3_64_intdigest(uid + purpose.encode() + struct.pack("<Q", seed & _MASK))


def sample_uid(document_uid: bytes, copy: int, offset: int, label: str) -> int:
    """Return the 64-bit uid of a sample: hash of its document, copy, token offset and grouping."""
    return xxhash.xxh3_64_intdigest(
        document_uid + struct.pack("<IQ", copy, offset) + label.encode()
    )


def mix(x: UInt64) -> UInt64:
    """Apply the 64-bit SplitMix finalizer (a bijection), element by element."""
    x = x ^ (x >> np.uint64(30))
    x = x * np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def kernel_base(seed: int, name: str, variant: int) -> int:
    """Return the part of the key that all rows of a name and variant share."""
    packed = struct.pack("<Q", seed & _MASK) + name.encode() + b"\0" + struct.pack("<I", variant)
    return int.from_bytes(hashlib.blake2b(packed).digest()[:8], "little")


def kernel_keys(seed: int, name: str, uids: UInt64, variants: NDArray[np.uint16]) -> UInt64:
    """Return one key per row: mix(mix(uid) ^ base), with base = blake2b(seed, name, variant)."""
    bases = np.zeros(1 + int(variants.max(initial=0)), dtype=np.uint64)
    present = np.flatnonzero(np.bincount(variants))
    bases[present] = [kernel_base(seed, name, variant) for variant in present.tolist()]
    return mix(mix(uids.astype(np.uint64, copy=False)) ^ bases[variants])


def random_bits(keys: UInt64, stream: int, count: int) -> UInt64:
    """Return `count` entries of a stream, 64 random bits each, shape [len(keys), count].

    Entry j is mix(key + G * (2**32 * stream + j + 1)).
    """
    first = (stream << 32) + 1
    steps = np.arange(first, first + count, dtype=np.uint64) * np.uint64(_GOLDEN)
    return mix(keys[:, None] + steps[None, :])


def random_bits_of(base: int, uid: int, stream: int, index: int) -> int:
    """Return 64 random bits of one row as a Python integer, equal to those of `random_bits`."""
    key = mix_one(mix_one(uid) ^ base)
    return mix_one((key + _GOLDEN * ((stream << 32) + index + 1)) & _MASK)


def mix_one(x: int) -> int:
    """Return `mix` of one Python integer."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def reverse_bits(numbers: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Reverse the bits of 16-bit numbers: 1 becomes 32768, 2 becomes 16384, 3 becomes 49152."""
    for shift, mask in ((8, 0x00FF), (4, 0x0F0F), (2, 0x3333), (1, 0x5555)):
        bits = np.uint16(shift)
        low = np.uint16(mask)
        numbers = ((numbers >> bits) & low) | ((numbers & low) << bits)
    return numbers


def below(bits32: UInt64, bound: int | UInt64) -> NDArray[np.int64]:
    """Return uniform integers in 0..bound-1 from 32 random bits each: (u * bound) >> 32."""
    return ((bits32 * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)
