"""Spare a training process page faults for memory that it had before, and searches for garbage among its modules."""

import ctypes
import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt(3)."""
_LARGEST: Final = 2**31 - 1
"""Bytes; mallopt takes an int."""
_SET_BY_USER: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Keep freed blocks of up to 2 GiB in the process; return whether the C library does so.

    By default glibc returns a block to the system if it is large, where large depends on what the process freed
    before, between 128 kB and 32 MB. Each of its pages then costs a fault in every step: up to a third of the CPU time.
    The peak of the memory stays the same within some percent.
    """
    if any(name in environment for name in _SET_BY_USER):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # macOS and musl have none
    return mallopt is not None and bool(mallopt(_MMAP_THRESHOLD, _LARGEST) and mallopt(_TRIM_THRESHOLD, _LARGEST))


@contextmanager
def without_startup_garbage() -> Iterator[None]:
    """Collect garbage once, and leave what exists then out of later collections.

    A full collection looks at every object of every imported module, while the GPU waits. Where the caller has frozen
    objects already, these stay the ones that are left out.
    """
    gc.collect()
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
