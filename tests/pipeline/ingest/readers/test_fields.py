"""Rows of named fields: what becomes text, what stays beside it, and why a row is not a document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.ingest.documents.document import FLAG_REPLACEMENTS
from clozeline.pipeline.ingest.readers import Counted, Item
from clozeline.pipeline.ingest.readers._fields import FieldOptions, make_record
from tests.pipeline.captures import read


def rows_of(folder: Path, content: bytes) -> list[Item]:
    """Items of JSON lines."""
    path = folder / "rows.jsonl"
    path.write_bytes(content)
    return read(path, name="jsonl")


def test_odd_values_are_kept_as_plain_json(tmp_path):
    row = (
        b'{"text": "a", "text": "b", "url": "u", "n": NaN, "big": 123456789012345678901234567890, "uid": "mine", '
        b'"x": {"y": [1.5, "\\ud800"]}}'
    )
    item = rows_of(tmp_path, row)[0]
    assert (item.text, item.url) == ("b", "u")
    assert item.extra == {
        "n": "nan",
        "big": "123456789012345678901234567890",
        "uid": "mine",
        "x": {"y": [1.5, "\ufffd"]},
    }
    json.dumps(item.extra, allow_nan=False).encode()


def test_an_integer_of_thousands_of_digits_is_no_error(tmp_path):
    item = rows_of(tmp_path, (b'{"text": "a", "n": ' + b"9" * 9000 + b"}"))[0]
    assert item.extra["n"].startswith("999")


def test_too_much_beside_the_text_is_dropped(tmp_path):
    item = rows_of(tmp_path, (json.dumps({"text": "a", "blob": "x" * 100_000}).encode()))[0]
    assert item.extra == {"dropped": True}


def test_lone_surrogates_are_replaced(tmp_path):
    items = rows_of(tmp_path, (b'{"text": "a\\ud800b"}\n{"text": "\\ud83d\\ude00"}'))
    assert [(item.text, item.flags) for item in items] == [("a\ufffdb", FLAG_REPLACEMENTS), ("\U0001f600", 0)]


TEXT = st.text(max_size=6)  # lone surrogates too
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.dates() | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=80)
@given(TEXT, st.dictionaries(TEXT.filter(lambda name: name not in ("body", "url")), VALUES, max_size=4), VALUES)
def test_any_row_with_text_becomes_a_record_of_valid_unicode_and_json(
    text: str, others: dict[str, Any], url: Any
) -> None:
    found = make_record(
        {**others, "body": f"x{text}", "url": url}, FieldOptions(text_key="body"), "jsonl", 7, 9, span=3
    )
    assert not isinstance(found, Counted)
    assert (found.locator, found.kind, found.length, found.span) == (7, "jsonl", 9, 3)
    assert found.text == f"x{text}".encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    valid = not any(0xD800 <= ord(character) < 0xE000 for character in text)
    assert (found.text == f"x{text}", found.flags == 0) == (valid, valid)
    assert isinstance(found.url, str) == (isinstance(url, str) and url != "")
    json.dumps([found.extra, found.url, found.text], allow_nan=False, ensure_ascii=False).encode()
    for name, value in others.items():
        if value is None or isinstance(value, bool):
            assert found.extra[name.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")] is value


@pytest.mark.parametrize(
    ("row", "reason"),
    [({}, "no_text"), ({"text": None}, "no_text"), ({"text": 3}, "text_type"), ({"text": b"\xff"}, "bad_utf8"),
     ({"text": " \n\u00a0"}, "empty")],
)  # fmt: skip
def test_a_row_without_text_counts_the_bytes_it_takes(row: dict[str, Any], reason: str) -> None:
    assert make_record(row, FieldOptions(), "jsonl", 0, 9) == Counted("malformed", reason, 9)
    assert make_record(row, FieldOptions(), "arrow", 0, 1, span=0) == Counted("malformed", reason, 0)


def test_a_structure_too_deep_to_keep_is_dropped() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    found = make_record({"text": "a", "x": deep}, FieldOptions(), "jsonl", 0, 1)
    assert not isinstance(found, Counted)
    assert found.extra == {"dropped": True}
