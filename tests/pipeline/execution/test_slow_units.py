"""The slowest units are those whose records came longest after their markers."""

from __future__ import annotations

import os
from pathlib import Path

from clozeline.pipeline.execution.slow_units import finished_marker, slowest_units
from clozeline.pipeline.execution.unit_record import UnitRecord

START = 1_700_000_000_000_000_000


def write_unit(folder: Path, unit: int, seconds: float, marker: bool = True) -> UnitRecord:
    record = UnitRecord("score", unit, "key", "ok", {"documents_in": 10 * unit} if unit % 2 else {}, {})
    record.save(folder)
    end = START + int(seconds * 1e9)
    os.utime(UnitRecord.path(folder, "score", unit), ns=(end, end))
    if marker:
        path = finished_marker(folder, "score", unit)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, ns=(START, START))
    return record


def test_five_are_listed_the_slowest_first(tmp_path: Path) -> None:
    seconds = [3.0, 1.5, 9.25, 0.5, 7.0, 2.0, 8.0]
    records = [write_unit(tmp_path, unit, each) for unit, each in enumerate(seconds)]
    listed = slowest_units(tmp_path, records)
    assert [(each["unit"], each["seconds"]) for each in listed] == [(2, 9.25), (6, 8.0), (4, 7.0), (0, 3.0), (5, 2.0)]
    assert [each["documents"] for each in listed] == [None, None, None, None, 50]
    assert {each["pass_name"] for each in listed} == {"score"}


def test_a_unit_of_an_earlier_start_has_no_time(tmp_path: Path) -> None:
    records = [write_unit(tmp_path, 0, 5.0, marker=False), write_unit(tmp_path, 1, 1.0)]
    assert [each["unit"] for each in slowest_units(tmp_path, records)] == [1]
