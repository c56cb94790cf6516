"""Count the finished units of a running pass by listing the folder of their records, at most once a second."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from clozeline.pipeline.execution.unit_record import UnitRecord

_INTERVAL_S: Final = 1.0
# A listing may take at most this share of the time, however many names the folder holds.
_SHARE: Final = 0.02


class PendingUnits:
    """Units of a pass whose records have not been seen yet.

    Args:
        folder: of the stage.
        pass_name: of the pass.
        units: those that run now, without records at the start.
        clock: seconds.
    """

    def __init__(
        self, folder: Path, pass_name: str, units: Sequence[int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        paths = [UnitRecord.path(folder, pass_name, unit) for unit in units]
        self._folder, self._names = folder / "records", {path.name for path in paths}
        self._total, self._clock = len(paths), clock
        self._next = -float("inf")

    def count_done(self) -> int:
        """Return the number of units with a record, as of the last listing."""
        start = self._clock()
        if self._names and start >= self._next:
            with suppress(FileNotFoundError), os.scandir(self._folder) as entries:  # names alone: no stat
                self._names.difference_update(entry.name for entry in entries)
            end = self._clock()
            self._next = end + max(_INTERVAL_S, (end - start) / _SHARE)
        return self._total - len(self._names)
