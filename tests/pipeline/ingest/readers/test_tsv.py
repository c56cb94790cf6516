from __future__ import annotations

import gzip
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, RawRecord, detect
from clozeline.registry import choose
from tests.pipeline.captures import read_range

LINES = [
    "It is raining.\tEs regnet.",
    "",
    "no other side",
    "a\tb\tc",
    "\tnur rechts",
    "left only\t",
    "Whales are mammals.\t鲸鱼是哺乳动物。\r",
]


def read(path: Path, start: int = 0, end: int | None = None, **options: Any) -> list[Any]:
    reader = choose("clozeline.pipeline.ingest.readers", {"name": "tsv", **options}).build(Limits(line_bytes=1000))
    return read_range(reader, path, start, path.stat().st_size if end is None else end)


def write(path: Path, lines: list[str] = LINES) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def records(items: list[Any]) -> list[tuple[int, str, str | None]]:
    return [(item.locator, item.text, item.target_text) for item in items if isinstance(item, RawRecord)]


def test_pairs_and_what_is_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv")
    items = read(path)
    data = path.read_bytes()
    places = [data.index(line.encode()) for line in (LINES[0], "\tnur", "left only", "Whales")]
    assert records(items) == [
        (places[0], "It is raining.", "Es regnet."),
        (places[1], "", "nur rechts"),
        (places[2], "left only", ""),
        (places[3], "Whales are mammals.", "鲸鱼是哺乳动物。"),
    ]
    reasons = Counter(item.reason for item in items if isinstance(item, Counted))
    assert reasons == {"blank_line": 1, "fields": 2}
    assert len(items) == len(LINES)
    assert {item.kind for item in items if isinstance(item, RawRecord)} == {"tsv"}


def test_ranges_hold_every_line_once(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", [f"text {number}\tText {number}" for number in range(60)])
    whole, size = records(read(path)), path.stat().st_size
    for pieces in (2, 3, 7, size):
        bounds = [size * piece // pieces for piece in range(pieces + 1)]
        parts = [records(read(path, start, end)) for start, end in pairwise(bounds)]
        assert [record for part in parts for record in part] == whole


def test_compressed_truncated_and_broken_lines(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv.gz"
    packed = gzip.compress(b"one\teins\n" * 2000 + b"\xff\tx\n" + b"y" * 1001 + b"\ttoo long\n")
    path.write_bytes(packed)
    items = read(path)
    assert len(records(items)) == 2000
    assert Counter(i.reason for i in items if isinstance(i, Counted)) == {"bad_utf8": 1, "line_bytes": 1}
    path.write_bytes(packed[:-30])
    assert Counter(i.reason for i in read(path) if isinstance(i, Counted))["truncated"] == 1
    assert detect(path) == ("tsv", False)


def test_named_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "plain.tsv", ["7\tIt is raining.\thttp://x.example"])
    (item,) = read(path, columns=["score", "text", "url"])
    assert (item.text, item.target_text, item.url, item.extra) == (
        "It is raining.",
        None,
        "http://x.example",
        {"score": "7"},
    )
    for columns in (["target_text"], ["text", "text"], []):
        with pytest.raises(ConfigurationError, match="columns"):
            read(path, columns=columns)


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"\xef\xbb\xbfone\teins\n")
    assert records(read(path)) == [(0, "one", "eins")]
