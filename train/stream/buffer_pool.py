"""Memory that is used again as soon as nobody holds it: fresh memory costs a page fault for every 4 KiB."""

from __future__ import annotations

import sys
import threading
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["BufferPool"]


def _references_to_unused() -> int:
    """What `getrefcount` says of an array that only a list knows; how it counts differs between interpreters."""
    for array in [np.empty(0)]:
        return sys.getrefcount(array)
    raise AssertionError("unreachable")


_UNUSED: Final = _references_to_unused()


class BufferPool:
    """A few arrays of every shape in turn; any thread may take them, and hand them to others.

    An array is free again when no view and no tensor refers to it, so nothing in use is ever overwritten. Where all
    are in use a new one takes the place of the oldest.

    Args:
        most: arrays of one shape and type to keep.

    Example: after `a = pool.take((2,), int64); del a` the next `take` of that shape gives the same memory.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[tuple[tuple[int, ...], np.dtype[Any]], list[NDArray[Any]]] = {}
        self._lock = threading.Lock()

    def take(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array with arbitrary content."""
        kind = np.dtype(dtype)
        with self._lock:
            kept = self._kept.setdefault((shape, kind), [])
            for array in kept:
                if sys.getrefcount(array) == _UNUSED:
                    return array
            fresh: NDArray[Any] = np.empty(shape, kind)
            kept[:] = [*kept[-self._most + 1 :], fresh]
            return fresh
