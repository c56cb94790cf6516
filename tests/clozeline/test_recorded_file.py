"""Files compared with the records of their units."""

from __future__ import annotations

import pytest

from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.execution.unit_record import Output, UnitRecord
from clozeline.recorded_file import RecordedFile, check_files, find_file

NAME = "documents/000003.arrow"


@pytest.fixture
def stage(tmp_path):
    """A stage of one unit, which wrote a thousand different bytes and an empty file."""
    output = Output(tmp_path / "clean")
    with output.file(NAME) as path:
        path.write_bytes(bytes(range(250)) * 4)
    with output.file("rejects/000003.arrow") as path:
        path.touch()
    UnitRecord("main", 3, "key", "ok", {}, output.files).save(output.folder)
    return output.folder


def test_the_bytes_are_those_of_the_file(stage):
    assert find_file(stage, "000003", NAME).buffer().to_pybytes() == (stage / NAME).read_bytes()
    assert find_file(stage, "000003", "rejects/000003.arrow").text() == ""
    check_files(stage, "000003")


@pytest.mark.parametrize("place", [0, 499, 999])
def test_one_changed_bit_is_refused(stage, place):
    content = bytearray((stage / NAME).read_bytes())
    content[place] ^= 4
    (stage / NAME).write_bytes(content)
    with pytest.raises(IntegrityError, match=r"documents/000003\.arrow: expected xxh3 .*clozeline clean --verify"):
        find_file(stage, "000003", NAME).buffer()
    with pytest.raises(IntegrityError):
        check_files(stage, "000003", "documents/")
    check_files(stage, "000003", "rejects/")


def test_another_size_and_a_missing_file_are_refused(stage):
    (stage / NAME).write_bytes(b"x" * 999)
    with pytest.raises(IntegrityError, match="expected 1000 bytes, got 999"):
        find_file(stage, "000003", NAME).buffer()
    (stage / NAME).unlink()
    with pytest.raises(StorageError, match=r"missing; run `clozeline clean --verify` with"):
        find_file(stage, "000003", NAME).buffer()


def test_a_record_that_has_changed_is_refused(stage):
    path = stage / "records" / "000003.json"
    path.write_text(path.read_text().replace('"unit": 3', '"unit": 2'))
    with pytest.raises(IntegrityError, match=r"000003\.json: not the record of a unit \(checksum"):
        find_file(stage, "000003", NAME)


def test_a_file_without_a_recorded_hash_is_read_as_it_is(stage):
    (stage / NAME).write_bytes(b"other")
    assert find_file(stage, "000009", NAME).text() == RecordedFile(stage / NAME).text() == "other"
