"""When to save by time: `checkpoint.every: auto`.

The first rank decides, all ranks learn it with their next batch.
"""

import time
from typing import Final

LEAST_SECONDS: Final = 60.0
"""Seconds of training before the first save, and between two."""
LARGEST_SHARE: Final = 0.02
"""Largest share of the time that goes into saves."""


class SavePace:
    """Measures saves and the time since the last one, on the first rank, which decides for all.

    A save that took 3 seconds is followed by at least 147 seconds of training: 3 of 150 are 2 %.
    """

    def __init__(self, rank: int, *, by_time: bool) -> None:
        self.is_agreed = False
        """All ranks save after this step; the loop sets it."""
        self._decides = by_time and rank == 0
        self._resumed = time.monotonic()
        self._least = LEAST_SECONDS

    def is_due(self) -> bool:
        """Return whether this rank asks for a save."""
        return self._decides and time.monotonic() - self._resumed >= self._least

    def note_save(self, seconds: float) -> None:
        """Note that a save has just ended and took this many seconds."""
        self._resumed = time.monotonic()
        self._least = max(LEAST_SECONDS, seconds * (1 / LARGEST_SHARE - 1))
