"""Native copies of ragged rows; None where the caller must take its numpy form."""

from ctypes import c_int64
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from clozeline.arrays import Int64
from clozeline.native.library import Function, array_of, is_available

_ANY: Final = array_of(None)
_I64: Final = array_of(np.int64)
_gather: Final = Function(
    "clozeline_gather", _ANY, c_int64, c_int64, _I64, _I64, c_int64, _ANY, c_int64, returns=c_int64
)
_pad_rows: Final = Function(
    "clozeline_pad_rows", _ANY, c_int64, c_int64, _I64, c_int64, c_int64, c_int64, _ANY, c_int64,
    returns=c_int64,
)  # fmt: skip
_TYPES: Final[dict[np.dtype[Any], int]] = {
    np.dtype(name): -int(name[1]) if name[0] == "i" else int(name[1]) for name in ("u1", "u2", "u4", "i4", "i8")
}
_WIDE: Final[dict[np.dtype[Any], tuple[int, int]]] = {
    np.dtype(np.int32): (-(2**31), 2**31),
    np.dtype(np.int64): (-(2**63), 2**63),
}


def gather(values: NDArray[Any], starts: Int64, lengths: Int64, total: int) -> NDArray[Any] | None:
    """Return the runs `values[starts[i] : starts[i] + lengths[i]]`, concatenated; `total` is the sum of the lengths.

    Raises:
        ValueError: a run leaves the array, which C checks before it copies anything.
    """
    if not is_available() or values.dtype not in _TYPES or not values.flags.c_contiguous:
        return None
    out = np.empty(total, values.dtype)
    size, item, rows = len(values), values.itemsize, len(starts)
    starts, lengths = np.ascontiguousarray(starts), np.ascontiguousarray(lengths)
    if not _gather(values, size, item, starts, lengths, rows, out, total):
        raise ValueError(f"a run of {total} values in all leaves the array of {size}")
    return out


def pad_rows(values: NDArray[Any], offsets: Int64, width: int, filler: int, dtype: DTypeLike) -> NDArray[Any] | None:
    """Return the rows between `offsets` as a matrix [rows, width] of int32 or int64, filled up with `filler`.

    Raises:
        ValueError: a row leaves the array or is wider than `width`, which C checks before it copies anything.
    """
    wanted = np.dtype(dtype)
    low, high = _WIDE.get(wanted, (0, 0))
    unfit = values.dtype not in _TYPES or not values.flags.c_contiguous or not low <= filler < high
    if unfit or not is_available():
        return None
    out, size, rows = np.empty((len(offsets) - 1, width), wanted), values.size, len(offsets) - 1
    offsets = np.ascontiguousarray(offsets)
    types = _TYPES[values.dtype], _TYPES[wanted]
    if not _pad_rows(values, size, types[0], offsets, rows, width, filler, out, types[1]):
        raise ValueError(f"a row leaves the array of {size} values, or is wider than {width}")
    return out
