"""Hold the records of a stage's units in memory, so that a start opens each record file once."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from clozeline.pipeline.execution.unit_record import UnitRecord


class StageRecords:
    """The records of all passes of a stage, read at the first question.

    Only the process that holds the output's lock may rely on it. Workers write records, which `read_again` fetches.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unreadable: set[Path] = set()

    @cached_property
    def _passes(self) -> dict[str, dict[int, UnitRecord]]:
        """Records by pass and unit."""
        passes: dict[str, dict[int, UnitRecord]] = {}
        for path in (self._folder / "records").glob("*.json"):
            if (record := UnitRecord.read(path)) is None:
                self._unreadable.add(path)
            else:
                passes.setdefault(record.pass_name, {})[record.unit] = record
        return passes

    def __iter__(self) -> Iterator[UnitRecord]:
        return (record for units in self._passes.values() for record in units.values())

    def get(self, pass_name: str, unit: int) -> UnitRecord | None:
        """Return the record of a unit, of success or failure; None if it is missing or damaged."""
        return self._passes.get(pass_name, {}).get(unit)

    def of_pass(self, pass_name: str) -> list[UnitRecord]:
        """Return the records of the finished units of a pass, by unit."""
        units = self._passes.get(pass_name, {})
        return [record for _, record in sorted(units.items()) if record.status == "ok"]

    def remove_unreadable(self) -> None:
        """Remove files that hold no record, or that of another unit."""
        _ = self._passes
        while self._unreadable:
            self._unreadable.pop().unlink(missing_ok=True)

    def remove(self, pass_name: str, units: Iterable[int]) -> None:
        """Remove the records of units, if they have any."""
        for unit in units:
            UnitRecord.path(self._folder, pass_name, unit).unlink(missing_ok=True)
            self._passes.get(pass_name, {}).pop(unit, None)

    def read_again(self, pass_name: str, units: Iterable[int]) -> None:
        """Read the records of units that have just run."""
        for unit in units:
            if (record := UnitRecord.load(self._folder, pass_name, unit)) is not None:
                self._passes.setdefault(pass_name, {})[unit] = record
