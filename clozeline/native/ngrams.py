"""Native features of a text for a naive Bayes model over byte n-grams, and rows of its table."""

from ctypes import c_char_p, c_int64
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.native.library import Function, array_of

_I32: Final = array_of(np.int32)
_I64: Final = array_of(np.int64)
_F32: Final = array_of(np.float32)
_ngram_counts: Final = Function(
    "clozeline_ngram_counts",
    *(c_char_p, c_int64, array_of(np.uint32), _I32, _I32, _I64, _F32),
    returns=c_int64,
)
_gather_halves: Final = Function(
    "clozeline_gather_halves", array_of(np.float16), c_int64, _I64, c_int64, _F32
)


class NgramTable:
    """An automaton that finds features of a text, and a row of half precision for each feature.

    It is for one thread at a time.

    Args:
        moves: the next state by row and byte, shape [rows * 256].
        rows: the row of each state, shape [states].
        features: the feature that each state completes, or -1, shape [states].
        table: finite values of each feature, shape [features, columns].

    Raises:
        ValueError: a state, a row or a feature has no entry, or a value is not finite.
    """

    def __init__(
        self,
        moves: NDArray[np.uint32],
        rows: NDArray[np.uint32],
        features: NDArray[np.int32],
        table: NDArray[np.float16],
    ) -> None:
        states = len(rows)
        if (
            len(features) != states
            or moves.max() >= states
            or rows.max() >= len(moves) // 256
            or not -1 <= features.min() <= features.max() < len(table)
            or not np.isfinite(table).all()
        ):
            raise ValueError("expected a row for each state, and finite values for each feature")
        self._automaton = (moves, np.stack([rows, features], axis=1).astype(np.int32))
        self._table = np.ascontiguousarray(table)
        self._slots = np.full(len(table), -1, np.int32)
        self._floats = np.empty((0, table.shape[1]), np.float32)

    def find(self, text: bytes) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return how often each feature is in a text, in the order of their first places.

        Also return their rows in single precision, shape [found, columns], valid until the next
        call.
        """
        found = np.empty(len(text), np.int64)
        counts = np.empty(len(text), np.float32)
        distinct = _ngram_counts(text, len(text), *self._automaton, self._slots, found, counts)
        if distinct > len(self._floats):
            self._floats = np.empty((2 * distinct, self._table.shape[1]), np.float32)
        _gather_halves(self._table, self._table.shape[1], found, distinct, self._floats)
        return counts[:distinct], self._floats[:distinct]
