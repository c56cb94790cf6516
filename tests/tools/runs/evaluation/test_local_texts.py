"""Texts of plain and compressed files, and messages about those that hold none."""

import gzip
import json
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.tools.runs.evaluation.local_texts import files_of, json_lines, texts_of_files


def test_lines_of_json_and_whole_files(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"text": text}) + "\n" for text in ("one", "zwei\nDrei")) + "\n"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "b.txt").write_text("first\n\nsecond é\n", encoding="utf-8")
    (tmp_path / ".hidden").write_text("no")
    assert [*texts_of_files(tmp_path)] == ["one", "zwei\nDrei", "first\n\nsecond é"]
    assert [path.name for path in files_of(tmp_path, (".jsonl",))] == ["a.jsonl.gz"]
    assert [number for number, _ in json_lines(tmp_path / "a.jsonl.gz")] == [1, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": "a"}\n{"words": 1}\n', r"a.jsonl, line 2: expected a field 'text', got words"),
        (b"[1]\n", r"line 1: expected a JSON object, got list"),
        (b"{\n", r"line 1: expected a JSON object: "),
        (b'{"text": "\xff"}\n', r"line 1: expected UTF-8"),
        (gzip.compress(b'{"text": "a"}\n' * 99)[:-20], r"a.jsonl: is damaged \(truncated\); fetch it again"),
    ],
    ids=["field", "list", "broken", "bytes", "cut"],
)
def test_damage_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(IntegrityError, match=message):
        list(texts_of_files(tmp_path))


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"give a file, or a folder with \*.jsonl\*"):
        files_of(tmp_path, (".jsonl",))
