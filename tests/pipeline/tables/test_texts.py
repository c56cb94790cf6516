"""Texts of files and folders."""

import gzip
import json

import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.tables import KeyedTexts, find_text_files, read_rows, read_texts


def test_lines_of_json_and_whole_files(tmp_path):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in ("one", "zwei\nDrei")) + "\n"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "b.txt").write_text("first\n\nsecond é\n")
    (tmp_path / ".hidden").write_text("no")

    assert [*read_texts(tmp_path)] == ["one", "zwei\nDrei", "first\n\nsecond é"]
    assert [path.name for path in find_text_files(tmp_path, with_rows=True)] == ["a.jsonl.gz"]
    assert [row["text"] for _, row in read_rows(tmp_path / "a.jsonl.gz")] == ["one", "zwei\nDrei"]

    with pytest.raises(
        IntegrityError, match=r"record 1: expected a text, got no 'body' among the keys: text"
    ):
        [*read_texts(KeyedTexts(path=tmp_path / "a.jsonl.gz", text_key="body"))]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b'{"text": "a"}\n{"words": 1}\n',
            r"a.jsonl, record 2: expected a text, got no 'text' among the keys: words",
        ),
        (b"[1]\n", r"record 1: expected a text, got it is valid JSON, but not an object"),
        (b"{\n", r"record 1: expected a text, got it is not valid JSON: "),
        ('{"text": "üü'.encode() + b'\xff"}\n', r"record 1: expected a text, got 'utf-8' codec"),
        (
            gzip.compress(b'{"text": "a"}\n' * 99, mtime=0)[:-20],
            r"a.jsonl, record \d+: expected a text, got truncated",
        ),
    ],
)
def test_damage_is_named(tmp_path, content, message):
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(IntegrityError, match=message):
        list(read_texts(tmp_path))
