"""Open the compiled module if it exists, and call its functions on arrays with checked types."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from clozeline.native.build import LIBRARY, source_hash

SWITCH: Final = "CLOZELINE_NATIVE"
"""Environment variable; 0 disables the module."""
_switched_off = False


@cache
def _open() -> tuple[ctypes.CDLL | None, str]:
    """Return the library, or None and the reason why it is not used."""
    if os.environ.get(SWITCH) == "0":
        return None, f"disabled by {SWITCH}=0"
    if sys.byteorder != "little":
        return None, "written for little-endian processors"
    if not LIBRARY.is_file():
        return None, f"{LIBRARY} is missing"
    try:
        library = ctypes.CDLL(str(LIBRARY))
        sources = library.clozeline_sources
    except (OSError, AttributeError) as error:  # built for another machine, or damaged
        return None, str(error)

    sources.restype = ctypes.c_char_p
    if sources().decode() != source_hash():
        return None, f"{LIBRARY} was compiled from other sources"
    return library, ""


def is_available() -> bool:
    """Return whether the compiled module is in use; otherwise callers use numpy."""
    return not _switched_off and _open()[0] is not None


def missing_note() -> str | None:
    """Return a note for the user if the module is not in use, and how to build it; else None."""
    library, reason = _open()
    if library is not None:
        return None
    build = (
        ""
        if reason.startswith("disabled")
        else "; a C++ compiler and `pip install .` of the sources build it"
    )
    return f"compiled module not in use ({reason}): same results, slower{build}"


@contextmanager
def numpy_only() -> Iterator[None]:
    """Use numpy in this block, for comparisons in tests and benchmarks; not thread-safe."""
    global _switched_off
    previous = _switched_off
    _switched_off = True
    try:
        yield
    finally:
        _switched_off = previous


class Function:
    """A function of the compiled module.

    `parameters` are `array_of(dtype)` and `ctypes.c_int64`, in the order of the C function.


    ctypes releases the GIL during a call. The caller checks sizes: the C code does not.
    """

    def __init__(self, name: str, *parameters: Any, returns: Any = None) -> None:
        self._name = name
        self._parameters = parameters
        self._returns = returns

    @cached_property
    def _function(self) -> Any:
        library, reason = _open()
        if library is None:
            raise RuntimeError(reason)
        function = library[self._name]
        function.argtypes = self._parameters
        function.restype = self._returns
        return function

    def __call__(self, *arguments: Any) -> Any:
        """Call the function; ctypes.ArgumentError for an array of a wrong type or layout."""
        return self._function(*arguments)


_HEAD: Final = object.__basicsize__
"""Offset of the data pointer in numpy's array object: the first field after the object header."""


def _read_pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(array) + _HEAD)


def _ask_numpy(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


# numpy's own access takes 2 to 4 microseconds per array, more than copying a small batch; reading
# the pointer directly takes a quarter of that
_probes = (np.zeros(3), np.arange(9)[3:], np.zeros((2, 2), np.uint8))
_address = (
    _read_pointer if all(_read_pointer(a).value == a.ctypes.data for a in _probes) else _ask_numpy
)


@cache
def array_of(dtype: DTypeLike | None) -> object:
    """Return the parameter type of contiguous arrays of a dtype; None accepts any dtype."""
    wanted = None if dtype is None else np.dtype(dtype)

    class Pointer:
        @classmethod
        def from_param(cls, array: NDArray[Any]) -> ctypes.c_void_p:
            if (wanted is not None and array.dtype != wanted) or not array.flags.c_contiguous:
                raise TypeError(
                    f"expected a contiguous array of {wanted or 'any type'}, got {array.dtype}, "
                    f"{array.strides}"
                )
            return _address(array)

    return Pointer
