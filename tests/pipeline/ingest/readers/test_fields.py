"""Rows of named fields: what becomes text, what stays beside it, and why a row is not a
document."""

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clozeline.pipeline.ingest.documents.document import FLAG_REPLACEMENTS
from clozeline.pipeline.ingest.readers import RawRecord, SkippedRecord
from clozeline.pipeline.ingest.readers._rows import FieldOptions, make_record
from tests.pipeline.captures import read

TEXT = st.text(max_size=6)  # lone surrogates too
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXT
    | st.dates()
    | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def make_slowly(row, locator, length):
    """The record of a row by the plain rules: every value converted, and the JSON of the others
    always written."""
    text = row.get("text")
    if text is None or (isinstance(text, bytes) and not is_utf8(text)):
        return SkippedRecord("malformed", "no_text" if text is None else "bad_utf8", locator)

    text = text.decode() if isinstance(text, bytes) else text
    if not isinstance(text, str) or not text.strip():
        return SkippedRecord(
            "malformed", "empty" if isinstance(text, str) else "text_type", locator
        )

    url = row.get("url")
    others = convert({name: value for name, value in row.items() if name not in ("text", "url")})
    fixed = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return RawRecord(
        locator,
        "jsonl",
        length,
        fixed,
        url=convert(url) if isinstance(url, str) and url else None,
        flags=0 if text == fixed else FLAG_REPLACEMENTS,
        extra=others if len(json.dumps(others)) <= 65536 else {"dropped": True},
    )


def is_utf8(value):
    return value.decode("utf-8", "ignore").encode() == value


def convert(value):
    """The value as JSON that every parser accepts."""
    if isinstance(value, dict):
        return {convert(str(name)): convert(item) for name, item in value.items()}
    if isinstance(value, list):
        return [convert(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, bytes):
        return value.decode() if is_utf8(value) else value.hex()
    odd = isinstance(value, float) and not math.isfinite(value)
    large = isinstance(value, int) and not -(2**63) < value < 2**63
    known = value is None or isinstance(value, (int, float))
    return str(value)[:1000] if odd or large or not known else value


SPACES = st.sampled_from(["", " ", "\u00a0\n", "\u2028", "\x1c", "\u200b"])
LONG = st.tuples(
    st.sampled_from(["x", "\u00e9", "\U0001f600", "\x00", '"', "\ud800"]), st.integers(5000, 70_000)
)
EDGES = st.sampled_from(
    [
        10**1200,
        2**63 - 1,
        2**63,
        1 - 2**63,
        -(2**63),
        -1234567890123456789,
        math.inf,
        math.nan,
        -0.0,
        True,
    ]
)
NAMES = st.sampled_from(["a", "b\u00e9", "\ud800", "\U0001f600", "c" * 5000])
FIELDS = st.dictionaries(
    NAMES, VALUES | EDGES | LONG.map(lambda pair: pair[0] * pair[1]), max_size=4
)


@settings(max_examples=300)
@given(SPACES | TEXT | TEXT.map(lambda text: text.encode("utf-8", "surrogatepass")), VALUES, FIELDS)
def test_records_are_those_of_the_plain_rules(text, url, others):
    row = {**others, "text": text, "url": url}
    assert make_record(row, FieldOptions(), "jsonl", 7, 9) == make_slowly(row, 7, 9)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(TEXT, FIELDS), min_size=1, max_size=3),
    st.sampled_from(["", " ", "\t", "\r"]),
)
def test_lines_become_the_records_of_the_plain_rules(tmp_path, rows, space):
    """JSON holds an integer of 20 digits or more as text."""
    written = [json.dumps({"text": text, **fields}, default=str).encode() for text, fields in rows]
    lines = [space.encode() + line + space.encode() for line in written]
    offsets = [sum(len(line) + 1 for line in lines[:count]) for count in range(len(lines))]
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(lines))
    found = read(tmp_path / "rows.jsonl", name="jsonl")
    parsed = [
        json.loads(
            line, parse_int=lambda digits: int(digits) if abs(int(digits)) < 10**19 else digits
        )
        for line in lines
    ]

    assert found == [
        make_slowly(*row) for row in zip(parsed, offsets, map(len, lines), strict=True)
    ]


@pytest.mark.parametrize("size", [65_526, 65_527])
def test_others_are_dropped_from_the_byte_after_the_limit(size):
    found = make_record({"text": "a", "x": "y" * size}, FieldOptions(), "jsonl", 0, 1)
    assert len(json.dumps({"x": "y" * size})) == size + 9
    assert found.extra == ({"x": "y" * size} if size + 9 <= 65_536 else {"dropped": True})


def test_a_structure_too_deep_to_keep_is_dropped():
    deep = []
    for _ in range(5000):
        deep = [deep]
    found = make_record({"text": "a", "x": deep}, FieldOptions(), "jsonl", 0, 1)
    assert found.extra == {"dropped": True}
