"""Units done are counted by one listing a second, whatever their number, and without a `stat`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from clozeline.pipeline.execution.pending_units import PendingUnits


class Listings:
    """A clock and the number of listings; each takes `seconds`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.0) -> None:
        self.now, self.count = 100.0, 0
        real = os.scandir

        def scandir(path: Any) -> Any:
            self.count += 1
            self.now += seconds
            return real(path)

        monkeypatch.setattr(os, "scandir", scandir)
        monkeypatch.setattr(Path, "stat", lambda *a, **k: pytest.fail("a stat"))


def finish(folder: Path, name: str) -> None:
    (folder / "records" / name).write_bytes(b"")


def test_a_thousand_looks_a_second_are_one_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "records").mkdir()
    listings = Listings(monkeypatch)
    pending = PendingUnits(tmp_path, "main", range(500), lambda: listings.now)
    for unit in range(500):
        finish(tmp_path, f"{unit:06d}.json")
        finish(tmp_path, f"score-{unit:06d}.json")  # of another pass
        listings.now += 0.01
        assert 0 <= unit + 1 - pending.count_done() <= 101
    listings.now += 1
    assert pending.count_done() == 500
    assert listings.count <= 7
    before = listings.count
    listings.now += 10
    assert (pending.count_done(), listings.count) == (500, before), "nothing is pending"


def test_a_slow_listing_waits_fifty_times_as_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "records").mkdir()
    listings = Listings(monkeypatch, seconds=0.2)
    pending = PendingUnits(tmp_path, "count", [3, 5], lambda: listings.now)
    for _ in range(100):
        assert pending.count_done() == 0
        listings.now += 0.25
    assert listings.count == 3  # at 0, 10.2 and 20.4 of 25 seconds
    finish(tmp_path, "count-000005.json")
    listings.now += 10
    assert pending.count_done() == 1


def test_before_the_first_record_there_may_be_no_folder(tmp_path: Path) -> None:
    assert PendingUnits(tmp_path, "main", range(3)).count_done() == 0
