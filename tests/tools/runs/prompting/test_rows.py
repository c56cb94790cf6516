"""Rows of tables and of lines of JSON, and those that are refused and counted."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.tools.runs.prompting.rows import read_rows
from clozeline.tools.runs.prompting.template import Template

TEMPLATE: Template = validate(
    Template,
    {
        "example": "{text}{label}", "labels": {"yes": [" yes"], "no": [" no"]}, "fields": {"text": "sentence"},
        "values": {"1": "yes", "0": "no"},
    },
    "test",
)  # fmt: skip


def test_a_table_has_a_header_and_quotes_without_meaning(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text(
        '\ufeffsentence\tlabel\r\na "film\t1\r\nb\t0\r\nc\r\n\r\nd\t7\r\n \t1\r\n', encoding="utf-8", newline=""
    )
    found = read_rows(path, TEMPLATE, labeled=True)
    assert [(row.fields["text"], row.label) for row in found.rows] == [('a "film', "yes"), ("b", "no")]
    assert found.refused == {"columns": 1, "bad_label": 1, "no_text": 1}


def test_lines_of_json_plain_or_compressed(tmp_path: Path) -> None:
    lines = [
        {"sentence": "a", "label": 1},
        {"sentence": "b"},
        {"text": "c", "label": 0},
        {"sentence": "d", "label": "no"},
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "dev.jsonl").write_text(content)
    (tmp_path / "dev.jsonl.gz").write_bytes(gzip.compress(content.encode()))
    for name in ("dev.jsonl", "dev.jsonl.gz"):
        found = read_rows(tmp_path / name, TEMPLATE, labeled=False)
        assert [row.label for row in found.rows] == ["yes", None, "no"]
        assert found.refused == {"no_text": 1}
        assert read_rows(tmp_path / name, TEMPLATE, labeled=True).refused == {"no_text": 1, "no_label": 1}


def test_a_uid_is_that_of_the_fields(tmp_path: Path) -> None:
    uids = []
    for number, lines in enumerate((["a\t1", "b\t0"], ["b\t1", "a\t0"])):
        path = tmp_path / f"{number}.tsv"
        path.write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
        uids.append([row.uid for row in read_rows(path, TEMPLATE, labeled=True).rows])
    assert uids[0] == uids[1][::-1]
    assert uids[0][0] != uids[0][1]


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("text\tlabel\na\t1\n")
    with pytest.raises(ConfigurationError, match="expected rows with sentence, got none that can be read: 1 x no_text"):
        read_rows(tmp_path / "dev.tsv", TEMPLATE, labeled=True)
    with pytest.raises(ConfigurationError, match="no such file"):
        read_rows(tmp_path / "none.tsv", TEMPLATE, labeled=True)
