"""Records of units: their file, when they count as complete, and the sums over them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.execution.unit_record import (
    Output,
    StageRecords,
    UnitRecord,
    add_counts,
    outputs_digest,
    records,
    require_equal,
)


def write(folder, unit=0, pass_name="main", status="ok", files=("a/0.txt", "tmp/0.txt")):
    output = Output(folder)
    for name in files:
        with output.file(name) as path:
            path.write_text(f"{name} of {unit}")
    record = UnitRecord(pass_name, unit, "key", status, {"documents_in": 2}, output.files)
    record.save(folder)
    return record


def test_a_record_is_read_as_it_was_saved(tmp_path):
    record = write(tmp_path, 3, "merge")
    path = tmp_path / "records" / "merge-000003.json"
    assert UnitRecord.load(tmp_path, "merge", 3) == UnitRecord.read(path) == record
    assert list(json.loads(path.read_text())) == sorted([*UnitRecord.__slots__, "checksum"])
    path.write_text(path.read_text()[:-20])
    assert UnitRecord.read(path) is None
    assert UnitRecord.load(tmp_path, "merge", 4) is None


@pytest.mark.parametrize(
    ("name", "change", "complete"),
    [
        ("a/0.txt", "", (True, True, True)),
        ("a/0.txt", "shorter", (False, False, False)),
        ("a/0.txt", "flipped", (True, True, False)),
        ("a/0.txt", "removed", (False, False, False)),
        ("tmp/0.txt", "removed", (True, False, True)),
    ],
)
def test_a_record_is_complete_with_its_outputs(tmp_path, name, change, complete):
    """Without intermediates, with them, and with hashes."""
    record, path = write(tmp_path), tmp_path / name
    text = path.read_text()
    if change == "removed":
        path.unlink()
    elif change:
        path.write_text(text[1:] if change == "shorter" else text[::-1])
    ways = ({"temporary": False}, {"temporary": True}, {"temporary": False, "verify": True})
    gaps = [record.gap(tmp_path, **way) for way in ways]
    assert tuple(gap == "" for gap in gaps) == complete
    assert all(gap.startswith(str(path)) for gap in gaps if gap)


def test_a_failed_unit_is_neither_complete_nor_listed(tmp_path):
    assert "a unit that failed" in write(tmp_path, 0, status="failed").gap(tmp_path, temporary=False)
    passes = [write(tmp_path, 11), write(tmp_path, 2), write(tmp_path, 1, "main-later")]
    assert records(tmp_path, "main") == [passes[1], passes[0]]


def test_the_digest_is_that_of_what_is_published(tmp_path):
    first, second = write(tmp_path, 0), write(tmp_path, 0, files=("a/0.txt",))
    assert outputs_digest([first]) == outputs_digest([second])
    assert outputs_digest([first]) != outputs_digest([write(tmp_path, 1)])


def test_counts_are_added_at_every_depth():
    total = {"a": 1, "by": {"x": 1}}
    assert add_counts(total, {"a": 2, "b": 3, "by": {"x": 4, "y": {"z": 5}}}) is total
    assert add_counts(total, {"by": {"y": {"z": 1}}}) == {"a": 3, "b": 3, "by": {"x": 5, "y": {"z": 6}}}


def test_an_equation_that_fails_names_both_sides():
    require_equal("clean", "in", 3, "out", 3)
    with pytest.raises(IntegrityError, match="clean: counts do not add up: in = 3, but out = 2"):
        require_equal("clean", "in", 3, "out", 2)


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
