"""Native walk of a language model's automaton; None where the caller must take its numpy form."""

from ctypes import c_char_p, c_int64
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.native.library import Function, array_of, is_available

_U32: Final = array_of(np.uint32)
_I32: Final = array_of(np.int32)
_walk: Final = Function("clozeline_walk", c_char_p, c_int64, _U32, _U32, _I32, c_int64, _I32)
_count: Final = Function(
    "clozeline_count_features", _I32, c_int64, array_of(np.int64), array_of(np.float32), _I32, c_int64, returns=c_int64
)


def count_features(
    text: bytes, following: NDArray[Any], rows: NDArray[Any], outputs: NDArray[Any], longest: int
) -> tuple[Int64, NDArray[np.float32]] | None:
    """Return the features that the automaton finds, in order of first occurrence, and the count of each.

    `following[rows[state] + byte]` is the next state (uint32), `outputs[state]` its feature or -1 (int32); a state
    depends on the last `longest` bytes only. The caller has checked that states and rows are in range.
    """
    if not is_available() or len(rows) != len(outputs) or len(text) >= 1 << 30:
        return None
    features = np.empty(len(text), np.int32)
    _walk(text, len(text), following, rows, outputs, longest, features)
    found, counts = np.empty(len(text), np.int64), np.empty(len(text), np.float32)
    table = np.zeros(1 << (2 * len(text) + 1).bit_length(), np.int32)
    count = _count(features, len(text), found, counts, table, len(table))
    return found[:count], counts[:count]
