"""Find the units of a stage that took longest, by the times of their files.

A unit's marker is written when it starts, its record when it ends. No file that later stages read holds a time, so that
two runs have equal bytes.
"""

import heapq
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypedDict

from clozeline.pipeline.execution.unit_record import TEMPORARY, UnitRecord

_LISTED: Final = 5


class SlowUnit(TypedDict):
    """A unit, and the seconds from its start to its record."""

    pass_name: str
    unit: int
    seconds: float
    documents: int | None
    """documents that it read; None where the pass counts none"""


def started_marker(folder: Path, pass_name: str, unit: int) -> Path:
    """Return the file that exists while a unit runs, and stays where its process died."""
    return folder / TEMPORARY / "running" / f"{pass_name}-{unit:06d}"


def finished_marker(folder: Path, pass_name: str, unit: int) -> Path:
    """Return the file whose time is the start of a unit that has ended."""
    return folder / TEMPORARY / "finished" / f"{pass_name}-{unit:06d}"


def slowest_units(folder: Path, records: Iterable[UnitRecord]) -> list[SlowUnit]:
    """Return up to five units of a stage, the slowest first, of those whose marker is still there."""
    times = []
    for record in records:
        try:
            start = finished_marker(folder, record.pass_name, record.unit).stat().st_mtime_ns
            end = UnitRecord.path(folder, record.pass_name, record.unit).stat().st_mtime_ns
        except OSError:  # an earlier start made it
            continue
        times.append((max(0, end - start), record))
    slowest = heapq.nlargest(_LISTED, times, key=lambda item: item[0])
    return [
        {"pass_name": record.pass_name, "unit": record.unit, "seconds": round(elapsed / 1e9, 3),
         "documents": record.counts.get("documents_in")}
        for elapsed, record in slowest
    ]  # fmt: skip
