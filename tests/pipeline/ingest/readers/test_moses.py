from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from clozeline.errors import StorageError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, RawRecord
from clozeline.registry import choose
from tests.pipeline.captures import read_range
from tests.pipeline.clean.cleaning import run_clean

ENGLISH = ["It is raining.", "", "left only", "", "Whales.\r"]
GERMAN = ["Es regnet.", "", "", "nur rechts", "Wale."]


def write(folder: Path, first: list[str] = ENGLISH, second: list[str] = GERMAN) -> tuple[Path, Path]:
    paths = folder / "pairs.en", folder / "pairs.de"
    for path, lines in zip(paths, (first, second), strict=True):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    return paths


def read(first: Path, second: Path, line_bytes: int = 1000) -> list[Any]:
    reader = choose("clozeline.pipeline.ingest.readers", {"name": "moses", "target_path": str(second)}).build(
        Limits(line_bytes=line_bytes)
    )
    return read_range(reader, first, 0, first.stat().st_size)


def test_lines_of_the_same_number_are_pairs(tmp_path: Path) -> None:
    items = read(*write(tmp_path))
    records = [(item.locator, item.text, item.target_text) for item in items if isinstance(item, RawRecord)]
    assert records == [
        (0, "It is raining.", "Es regnet."),
        (2, "left only", ""),
        (3, "", "nur rechts"),
        (4, "Whales.", "Wale."),
    ]
    assert [item.reason for item in items if isinstance(item, Counted)] == ["blank_line"]


@pytest.mark.parametrize("longer", [0, 1])
def test_files_of_different_length_fail(tmp_path: Path, longer: int) -> None:
    sides = [ENGLISH, GERMAN]
    sides[longer] = [*sides[longer], "one more"]
    paths = write(tmp_path, *sides)
    with pytest.raises(StorageError, match="one ends after line 5"):
        read(*paths)
    paths[1].unlink()
    with pytest.raises(StorageError, match="no such file"):
        read(*paths)


def test_damage_and_broken_lines_are_counted(tmp_path: Path) -> None:
    first, second = tmp_path / "a.gz", tmp_path / "b"
    data = gzip.compress(b"".join(f"text {number}\n".encode() for number in range(20_000)))
    first.write_bytes(data[:-2000])
    second.write_bytes(b"".join(f"Text {number}\n".encode() for number in range(20_000)))
    items = read(first, second)
    pairs = [item for item in items if isinstance(item, RawRecord)]
    assert len(pairs) > 1000
    assert all(pair.text == f"text {pair.locator}" and pair.target_text == f"Text {pair.locator}" for pair in pairs)
    assert Counter(item.reason for item in items if isinstance(item, Counted)) == {
        "truncated": 1,
        "unpaired": 20_000 - len(pairs),
    }
    first.write_bytes(b"\xff\nok\n" + b"x" * 50 + b"\n")
    second.write_bytes(b"a\nb\nc\n")
    assert [getattr(item, "reason", "record") for item in read(first, second, 40)] == [
        "bad_utf8",
        "record",
        "line_bytes",
    ]


def test_through_clean(tmp_path: Path) -> None:
    first, second = write(tmp_path)
    entry = {
        "path": str(first),
        "reader": "moses",
        "target_path": str(second),
        "language": "en",
        "target_language": "de",
    }
    found = run_clean([entry], tmp_path / "out")
    assert [(one.text, one.target_text) for one in found.documents] == [
        ("It is raining.", "Es regnet."),
        ("Whales.", "Wale."),
    ]
    assert {(one.language, one.target_language) for one in found.documents} == {("en", "de")}
    assert found.nonzero("rejected") == {"empty_side": 2}
