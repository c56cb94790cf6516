"""Records of units: their file, when they count as complete, and the sums over them."""

from __future__ import annotations

import json

import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.execution.unit_record import (
    Output,
    UnitRecord,
    add_counts,
    outputs_digest,
    read_records,
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


def test_a_file_without_a_record_of_its_name_is_left_out(tmp_path):
    kept = [write(tmp_path, 0), write(tmp_path, 2, status="failed"), write(tmp_path, 1, "score")]
    (tmp_path / "records/000001.json").write_text("{")
    (tmp_path / "records/000009.json").write_bytes((tmp_path / "records/000000.json").read_bytes())
    assert list(read_records(tmp_path)) == kept
    assert records(tmp_path, "main") == kept[:1]
