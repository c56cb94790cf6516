"""Records in memory: each file is opened once, and what workers write meanwhile is fetched by name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from clozeline.pipeline.execution.stage_records import StageRecords
from clozeline.pipeline.execution.unit_record import UnitRecord, records


def save(folder: Path, pass_name: str, unit: int, status: str = "ok") -> None:
    UnitRecord(pass_name, unit, "key", status, {"documents_in": unit}, {}).save(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for unit in (2, 0, 1):
        save(tmp_path, "main", unit)
        save(tmp_path, "score", unit, "failed" if unit == 1 else "ok")
    return tmp_path


def test_the_records_are_those_of_the_files(folder: Path) -> None:
    found = StageRecords(folder)
    for name in ("main", "score", "other"):
        assert found.of_pass(name) == records(folder, name)
    assert {(record.pass_name, record.unit) for record in found} == {
        (p, u) for p in ("main", "score") for u in range(3)
    }
    failed = found.get("score", 1)
    assert failed is not None
    assert failed.status == "failed"
    assert found.get("main", 3) is None


def test_each_file_is_read_once_and_again_only_on_request(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: Counter[str] = Counter()
    read = UnitRecord.read
    monkeypatch.setattr(UnitRecord, "read", lambda path: (reads.update([path.name]), read(path))[1])
    found = StageRecords(folder)
    for _ in range(3):
        assert len(found.of_pass("main")) == 3
        assert found.get("score", 2)
    assert reads == dict.fromkeys((path.name for path in (folder / "records").iterdir()), 1)
    found.remove("score", [1, 2, 7])
    assert [record.unit for record in found.of_pass("score")] == [0]
    save(folder, "score", 1)
    assert found.get("score", 1) is None
    found.read_again("score", [1])
    assert found.of_pass("score") == records(folder, "score")
    assert reads["score-000001.json"] == 3  # at first, again, and by `records`


def test_a_file_without_a_record_counts_as_missing_and_can_be_removed(folder: Path) -> None:
    damaged, moved = folder / "records/000001.json", folder / "records/000009.json"
    damaged.write_text("{")
    moved.write_bytes((folder / "records/000000.json").read_bytes())
    found = StageRecords(folder)
    assert [record.unit for record in found.of_pass("main")] == [0, 2]
    assert found.get("main", 9) is None
    found.remove_unreadable()
    assert not damaged.exists()
    assert not moved.exists()
    assert len(list((folder / "records").iterdir())) == 5
