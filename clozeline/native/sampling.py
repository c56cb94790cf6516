"""Native subsets, orders and words of rows; None where the caller must take its numpy form."""

from ctypes import c_int64
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool, Int64, UInt64
from clozeline.native.library import Function, array_of, is_available

_U64: Final = array_of(np.uint64)
_I64: Final = array_of(np.int64)
_U16: Final = array_of(np.uint16)
_F64: Final = array_of(np.float64)
_BOOL: Final = array_of(np.bool_)
_choose: Final = Function("clozeline_choose", _U64, c_int64, _I64, _I64, c_int64, _U64, _U16, c_int64, returns=c_int64)
_choose_weighted: Final = Function(
    "clozeline_choose_weighted", _U64, c_int64, _I64, _I64, c_int64, array_of(None), c_int64, c_int64, _F64, c_int64,
    _U64, _U16, c_int64, returns=c_int64,
)  # fmt: skip
_permute: Final = Function(
    "clozeline_permute", _U64, c_int64, _I64, c_int64, c_int64, _U64, _U16, c_int64, returns=c_int64
)
_find_words: Final = Function(
    "clozeline_find_words", _BOOL, _BOOL, c_int64, _I64, c_int64, *[_I64] * 5, returns=c_int64
)
_take_words: Final = Function(
    "clozeline_take_words", _U64, c_int64, c_int64, _I64, c_int64, _I64, _I64, c_int64, _I64, _U64, c_int64, _U64,
    _BOOL, returns=c_int64,
)  # fmt: skip
_NONE: Final = np.empty(0, np.uint64)


def choose(keys: UInt64, sizes: Int64, counts: Int64, stream: int) -> NDArray[np.uint16] | None:
    """Return for each row `counts[i]` of the indices below `sizes[i]`, ascending, concatenated."""
    if not is_available() or not len(keys) == len(sizes) == len(counts):
        return None
    out = _make_room(counts)
    done = _choose(
        np.ascontiguousarray(keys), stream, np.ascontiguousarray(sizes), np.ascontiguousarray(counts), len(keys),
        _scratch(sizes, 2), out, len(out),
    )  # fmt: skip
    return out if done else None


def choose_weighted(
    keys: UInt64, sizes: Int64, counts: Int64, stream: int, ids: NDArray[Any], mean_times: NDArray[np.float64]
) -> NDArray[np.uint16] | None:
    """Like `choose`, by times: `ids`, concatenated, have the mean times of the table."""
    if not is_available() or not len(keys) == len(sizes) == len(counts) or ids.dtype not in (np.uint16, np.uint32):
        return None
    out = _make_room(counts)
    done = _choose_weighted(
        np.ascontiguousarray(keys), stream, np.ascontiguousarray(sizes), np.ascontiguousarray(counts), len(keys),
        np.ascontiguousarray(ids), ids.itemsize, len(ids), np.ascontiguousarray(mean_times), len(mean_times),
        _scratch(sizes, 2), out, len(out),
    )  # fmt: skip
    return out if done else None


def permute(keys: UInt64, sizes: Int64, stream: int, distance: int = -1) -> NDArray[np.uint16] | None:
    """Return for each row a permutation of the indices below `sizes[i]`, concatenated; -1: of any distance."""
    if not is_available() or len(keys) != len(sizes):
        return None
    out = _make_room(sizes)
    done = _permute(
        np.ascontiguousarray(keys), stream, np.ascontiguousarray(sizes), len(keys), distance, _scratch(sizes, 3), out,
        len(out),
    )  # fmt: skip
    return out if done else None


def find_words(opens: Bool, special: Bool, offsets: Int64) -> tuple[Int64, Int64, Int64, Int64, Int64] | None:
    """Return starts, lengths and ends of runs of the words, their offsets by row, and the tokens in words by row."""
    if not is_available() or opens.shape != special.shape:
        return None
    rows = len(offsets) - 1
    starts, lengths, run_ends = (np.empty(len(opens), np.int64) for _ in range(3))
    word_offsets, tokens = np.empty(rows + 1, np.int64), np.empty(rows, np.int64)
    offsets = np.ascontiguousarray(offsets)
    count = _find_words(opens, special, len(opens), offsets, rows, starts, lengths, run_ends, word_offsets, tokens)
    return None if count < 0 else (starts[:count], lengths[:count], run_ends[:count], word_offsets, tokens)


def take_words(
    keys: UInt64, streams: tuple[int, int], offsets: Int64, lengths: Int64, run_ends: Int64, budgets: Int64,
    thresholds: UInt64 | None,
) -> Bool | None:  # fmt: skip
    """Return which words are taken, bool [words]; the streams are those of the order and of spans' numbers of words."""
    if not is_available() or not len(keys) == len(budgets) == len(offsets) - 1 or len(lengths) != len(run_ends):
        return None
    taken = np.zeros(len(lengths), np.bool_)
    table = _NONE if thresholds is None else thresholds
    done = _take_words(
        np.ascontiguousarray(keys), *streams, np.ascontiguousarray(offsets), len(keys), np.ascontiguousarray(lengths),
        np.ascontiguousarray(run_ends), len(lengths), np.ascontiguousarray(budgets), table, len(table),
        _scratch(np.diff(offsets), 3), taken,
    )  # fmt: skip
    return taken if done else None


def _make_room(counts: Int64) -> NDArray[np.uint16]:
    return np.empty(max(0, int(counts.sum())), np.uint16)  # C refuses negative counts


def _scratch(sizes: Int64, factor: int) -> UInt64:
    return np.empty(factor * int(sizes.max(initial=0)), np.uint64)
