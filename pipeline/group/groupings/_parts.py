"""The part of a mixture that a row belongs to: drawn when the row's start is known, so never by variant or label."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.kernels.rates import MILLION
from clozeline.seeding import MIXTURE, below, kernel_base, kernel_keys, random_bits, random_bits_of

Part: TypeAlias = tuple[int, int]
"""Tokens of a full row of the part, and its share in parts per million."""

MOST_PARTS = 256
"""Parts are stored in 8 bits."""


class PartDraws:
    """Draws parts for the rows of one sample set; without parts every row is of part 0 with the given length."""

    def __init__(self, parts: Sequence[Part], length: int, label: str, seed: int) -> None:
        self._lengths = [length for length, _ in parts] or [length]
        self._bounds = list(accumulate(share for _, share in parts)) or [MILLION]
        self._label, self._seed = label, seed
        self._base = kernel_base(seed, label, 0)

    def of_rows(self, uids: NDArray[np.uint64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return part and full length of each row, shape [rows]."""
        lengths = np.array(self._lengths, dtype=np.int64)
        if len(lengths) == 1:
            return np.zeros(len(uids), np.uint8), np.repeat(lengths, len(uids))
        keys = kernel_keys(self._seed, self._label, uids, np.zeros(len(uids), np.uint16))
        drawn = below(random_bits(keys, MIXTURE, 1)[:, 0] >> np.uint64(32), MILLION)
        parts: NDArray[Any] = np.searchsorted(np.array(self._bounds), drawn, side="right")
        return parts.astype(np.uint8), lengths[parts]

    def of_row(self, uid: int) -> tuple[int, int]:
        """Return part and full length of one row."""
        drawn = ((random_bits_of(self._base, uid, MIXTURE, 0) >> 32) * MILLION) >> 32
        part = bisect_right(self._bounds, drawn)
        return part, self._lengths[part]
