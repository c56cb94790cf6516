"""Objects that hold a hash of themselves, and files compared with the records of their units."""

import json
import shutil

import pytest

from clozeline.checksummed_json import add_checksum, refuse_newer, verify_checksum
from clozeline.errors import IntegrityError, NewerFormatError, StorageError
from clozeline.pipeline.execution.unit_record import Output, UnitRecord
from clozeline.recorded_file import RecordedFile, check_files, find_file

CONTENT = {
    "b": [1, 2.5, None],
    "a": {"é": "\udcff"},
    "c": True,
}


def test_what_is_sealed_is_found_again_in_any_order_of_keys():
    text = json.dumps(add_checksum(CONTENT))
    assert verify_checksum(json.loads(text), "here") == CONTENT
    assert add_checksum(dict(reversed(CONTENT.items())))["checksum"] == json.loads(text)["checksum"]


@pytest.mark.parametrize("key", ["a", "b", "c", "checksum"])
def test_every_changed_or_missing_value_is_noticed(key):
    sealed = add_checksum(CONTENT)
    for changed in (
        {**sealed, key: "other"},
        {name: value for name, value in sealed.items() if name != key},
    ):
        with pytest.raises(ValueError, match="checksum: expected"):
            verify_checksum(changed, "here")


def test_a_newer_format_is_told_from_a_changed_one():
    newer = add_checksum({**CONTENT, "format": 3})

    assert verify_checksum(newer, "here", 3)["format"] == 3

    with pytest.raises(
        NewerFormatError,
        match=r"here: a newer version wrote this file \(format 3, this version reads format 2\)",
    ):
        verify_checksum(newer, "here", 2)

    with pytest.raises(ValueError, match="checksum: expected"):
        verify_checksum({**newer, "format": 4}, "here", 2)
    for content in (
        {},
        {"format": 1},
        {"format": 2},
        {"format": "3"},
        {"format": None},
        [3],
        None,
    ):
        refuse_newer("file.json", content, 2)  # left to its reader


NAME = "documents/000003.arrow"


@pytest.fixture
def stage(tmp_path):
    """A stage of one unit, which wrote a thousand different bytes and an empty file."""
    output = Output(tmp_path / "clean")
    with output.file(NAME) as path:
        path.write_bytes(bytes(range(250)) * 4)
    with output.file("rejects/000003.arrow") as path:
        path.touch()
    UnitRecord("main", "000003", {}, {}, "ok", {}, output.files).save(output.folder)
    return output.folder


def test_the_bytes_are_those_of_the_file(stage):
    assert (
        find_file(stage, "main/000003", NAME).buffer().to_pybytes() == (stage / NAME).read_bytes()
    )
    assert find_file(stage, "main/000003", "rejects/000003.arrow").text() == ""
    check_files(stage, "main/000003")
    shutil.rmtree(stage / "records")
    (stage / NAME).write_bytes(b"other")  # read as it is in a folder without records
    check_files(stage, "main/000003")
    assert (
        find_file(stage, "main/000003", NAME).text() == RecordedFile(stage / NAME).text() == "other"
    )


@pytest.mark.parametrize(
    ("record", "name"),
    [("main/000003", "documents/000004.arrow"), ("main/000009", NAME), ("count/000003", NAME)],
)
def test_a_file_without_an_entry_or_a_record_is_refused(stage, record, name):
    (stage / name).write_bytes(b"other")
    with pytest.raises(IntegrityError, match=f"{record}.*clozeline clean --verify"):
        find_file(stage, record, name)


@pytest.mark.parametrize("place", [0, 499, 999])
def test_one_changed_bit_is_refused(stage, place):
    content = bytearray((stage / NAME).read_bytes())
    content[place] ^= 4
    (stage / NAME).write_bytes(content)

    with pytest.raises(
        IntegrityError, match=r"documents/000003\.arrow: expected xxh3 .*clozeline clean --verify"
    ):
        find_file(stage, "main/000003", NAME).buffer()

    with pytest.raises(IntegrityError):
        check_files(stage, "main/000003", "documents/")
    check_files(stage, "main/000003", "rejects/")


def test_another_size_and_a_missing_file_are_refused(stage):
    (stage / NAME).write_bytes(b"x" * 999)
    with pytest.raises(IntegrityError, match="expected 1000 bytes, got 999"):
        find_file(stage, "main/000003", NAME).buffer()
    (stage / NAME).unlink()
    with pytest.raises(StorageError, match=r"missing; run `clozeline clean --verify` with"):
        find_file(stage, "main/000003", NAME).buffer()
    path = stage / "records" / "main" / "000003.json"
    path.write_text(path.read_text().replace('"unit":"000003"', '"unit":"000002"'))

    with pytest.raises(
        IntegrityError, match=r"000003\.json: the record of a unit is missing or damaged"
    ):
        find_file(stage, "main/000003", NAME)
