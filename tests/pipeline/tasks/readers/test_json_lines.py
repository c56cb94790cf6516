from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers import Rejected
from clozeline.pipeline.tasks.readers._json_lines import field_of, json_objects, require_fields, texts_in
from tests.pipeline.tasks.readers.reading import written


def test_every_line_is_an_object_or_refused(tmp_path: Path) -> None:
    text = b'\xef\xbb\xbf{"a": 1}\r\n\n[1]\n{"a": 1,\n\xff\n7\n{"a": {"b": [2]}}'
    found = list(json_objects(written(tmp_path, text), Limits()))
    assert [index for index, _ in found] == list(range(7))
    assert [one.reason if isinstance(one, Rejected) else dict(one) for _, one in found] == [
        {"a": 1}, "blank_line", "fields", "fields", "bad_utf8", "fields", {"a": {"b": [2]}}
    ]  # fmt: skip


def test_fields_by_dotted_paths() -> None:
    row = {"a": {"b": ["x", "y"], "c": "z", "d": ["x", 1]}}
    assert field_of(row, "a.c") == "z"
    assert field_of(row, "a.c.e") is field_of(row, "f") is None
    assert (texts_in(row, "a.b"), texts_in(row, "a.c"), texts_in(row, "a.d")) == (("x", "y"), ("z",), ())


def test_the_first_line_shows_the_fields(tmp_path: Path) -> None:
    require_fields(written(tmp_path, '{"a": {"b": 0}}\n'), Limits(), "a.b")
    with pytest.raises(ConfigurationError, match="fields a and c, got a without c"):
        require_fields(written(tmp_path, '{"a": {"b": 0}}\n'), Limits(), "a", "c")
    for text, message in (
        ("", "but the file has no lines"), ('{"a": 1', "but it is no JSON .Expecting"),
        ("[1]", "but it is no JSON object"),
        ("\n{}", "but blank line"), (b"\xff\n", "but bad utf8"),
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match=f"line 1: expected JSON lines with the fields a, {message}"):
            require_fields(written(tmp_path, text), Limits(), "a")
