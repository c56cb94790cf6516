"""Lines, sentences, texts and JSON values of files, plain, compressed and damaged."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers import Rejected
from clozeline.pipeline.tasks.readers._text_lines import (
    SentenceLines,
    read_whole_json,
    sentence_lines,
    text_files,
    text_lines,
)
from tests.pipeline.tasks.readers.reading import written


def test_one_bad_byte_costs_one_line(tmp_path: Path) -> None:
    r"""A mark at the beginning and `\r` are no text; `\x85` and other ends of lines that Python knows are."""
    raw = "\ufeffa\r\n".encode() + b"\xff\n" + "b\u2028c\x85d\n\n".encode() + b"x" * 40
    found = list(text_lines(written(tmp_path, raw), Limits(line_bytes=20)))
    assert found == [
        (0, "a"),
        (1, Rejected("bad_utf8", 1)),
        (2, "b\u2028c\x85d"),
        (3, ""),
        (4, Rejected("line_bytes", 4)),
    ]


def test_blank_lines_end_sentences(tmp_path: Path) -> None:
    """Any number of them, with spaces or none; the last sentence needs none."""
    path = written(tmp_path, b"\n\na\nb\n  \n\nc\n\xff\nd")
    assert list(sentence_lines(path, Limits())) == [
        SentenceLines(2, ["a", "b"]),
        SentenceLines(6, ["c", "d"], "bad_utf8"),
    ]


def test_plain_and_compressed_json(tmp_path: Path) -> None:
    assert read_whole_json(written(tmp_path, '\ufeff{"a": 1}'), Limits()) == {"a": 1}
    assert read_whole_json(written(tmp_path, gzip.compress(b"[2]")), Limits()) == [2]


@pytest.mark.parametrize(
    ("raw", "message", "is_damaged"),
    [
        (b"{", "expected one JSON value", False),
        (b"\xff", "expected one JSON value", False),
        (b'{"a": 1}\n{"a": 2}\n', "it holds JSON lines", False),
        (gzip.compress(b"[1, 2]")[:-4], "is damaged", True),
    ],
    ids=["cut", "bytes", "lines", "gzip"],
)
def test_files_without_a_json_value(tmp_path: Path, raw: bytes, message: str, is_damaged: bool) -> None:
    """Only a damaged file may get better by copying it again."""
    with pytest.raises(ConfigurationError, match=message) as caught:
        read_whole_json(written(tmp_path, raw), Limits())
    assert ("copy the file again" in str(caught.value)) == is_damaged


def test_large_json(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"limits\.decompressed_bytes, 4"):
        read_whole_json(written(tmp_path, "[1, 2, 3]"), Limits(decompressed_bytes=4))


def test_files_of_the_folders_next_to_a_file(tmp_path: Path) -> None:
    names = ["train/pos/1.txt", "train/neg/2.txt", "train/neg/10.txt", "test/neg/3.txt", "train/4.txt",
             "train/neg/.5.txt"]  # fmt: skip
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    found = [path.relative_to(tmp_path).as_posix() for path in text_files(tmp_path / names[0])]
    assert found == ["train/neg/10.txt", "train/neg/2.txt", "train/pos/1.txt"]
