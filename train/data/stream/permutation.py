"""Compute random permutations without storing them: of blocks, and of the rows of a block."""

from math import isqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.seeding import random_bits

_MASK: Final = 0xFFFFFFFFFFFFFFFF
_GOLDEN: Final = 0x9E3779B97F4A7C15
_ROUNDS: Final = 12  # six are visibly biased for fewer than ten elements


def _mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


class FeistelPermutation:
    """A keyed bijection of 0 .. n-1 without tables: the order of an epoch needs no memory.

    Alternating modular rounds on (x // b, x % b) with a * b >= n, walked again while the image is n or more; a * b is
    below n + sqrt(n) + 1, so that is rare (arXiv 2106.06161 uses the same walking for shuffles on GPUs).

    Example: `sorted(FeistelPermutation(5, 7)(x) for x in range(5)) == [0, 1, 2, 3, 4]`.
    """

    def __init__(self, n: int, key: int) -> None:
        self.n = n
        self._a = isqrt(n - 1) + 1
        self._b = -(-n // self._a)
        self._keys = [_mix((key + _GOLDEN * (i + 1)) & _MASK) for i in range(_ROUNDS)]

    def __call__(self, x: int) -> int:
        """Return the image of x."""
        while True:
            high, low = divmod(x, self._b)
            for i, key in enumerate(self._keys):
                if i % 2:
                    low = (low + _mix(key ^ high)) % self._b
                else:
                    high = (high + _mix(key ^ low)) % self._a
            x = high * self._b + low
            if x < self.n:
                return x

    def inverse(self, y: int) -> int:
        """Return the x whose image is y."""
        while True:
            high, low = divmod(y, self._b)
            for i, key in reversed(list(enumerate(self._keys))):
                if i % 2:
                    low = (low - _mix(key ^ high)) % self._b
                else:
                    high = (high - _mix(key ^ low)) % self._a
            y = high * self._b + low
            if y < self.n:
                return y


def row_permutations(n: int, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return an order of n rows for each key, shape [keys, n]: the argsort of distinct 64-bit hashes."""
    return np.argsort(random_bits(keys, 0, n), axis=1)
