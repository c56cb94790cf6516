"""Reuse numpy buffers once nothing refers to them: fresh memory costs a page fault per 4 KiB."""

import sys
import threading
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray


def _count_references() -> int:
    for array in [np.empty(0)]:
        return sys.getrefcount(array)
    raise AssertionError("unreachable")


_UNUSED: Final = _count_references()


class BufferPool:
    """A few arrays of every shape, shared by all threads.

    An array is free again when no view and no tensor refers to it, so no array in use is overwritten. If all are in
    use, a new array replaces the oldest.

    Example: after `a = pool.take((2,), int64); del a` the next `take` of that shape gives the same memory.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: dict[tuple[tuple[int, ...], np.dtype[Any]], list[NDArray[Any]]] = {}
        self._lock = threading.Lock()

    def take(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array with arbitrary content."""
        kind = np.dtype(dtype)
        with self._lock:
            kept = self._kept.setdefault((shape, kind), [])
            for array in kept:
                if sys.getrefcount(array) == _UNUSED:
                    return array
            fresh: NDArray[Any] = np.empty(shape, kind)
            kept[:] = [*kept[-self._limit + 1 :], fresh]
            return fresh
