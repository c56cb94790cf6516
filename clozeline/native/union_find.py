"""Native union-find over node numbers; False if the caller must use numpy."""

from ctypes import c_int64
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import UInt64
from clozeline.native.library import Function, array_of, is_available

_U64: Final = array_of(np.uint64)
_PARENTS: Final = (array_of(None), c_int64)
_join: Final = Function("clozeline_join", *_PARENTS, _U64, _U64, c_int64)
_flatten: Final = Function("clozeline_flatten", *_PARENTS, c_int64)


def join(parents: NDArray[Any], left: UInt64, right: UInt64) -> bool:
    """Join the components of left[i] and right[i]; parents are uint32 or uint64, 0 for no edge.

    Raises:
        ValueError: a node is 0, or has no parent; or the ends differ in number.
    """
    if len(left) != len(right):
        raise ValueError(f"expected as many left as right ends, got {len(left)} and {len(right)}")
    for ends in (left, right):
        if len(ends) and not 0 < ends.min() <= ends.max() < len(parents):
            raise ValueError(
                f"expected nodes from 1 to {len(parents) - 1:,}, got {ends.min():,} to "
                f"{ends.max():,}"
            )
    if not is_available():
        return False
    both = map(np.ascontiguousarray, (left, right))
    _join(parents, parents.itemsize, *both, len(left))
    return True


def flatten(parents: NDArray[Any]) -> bool:
    """Make the smallest node of its component the parent of each node."""
    if not is_available():
        return False
    _flatten(parents, parents.itemsize, len(parents))
    return True
