import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import RawRecord
from tests.pipeline.captures import counted, read, texts

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=9,
)


@given(
    values=st.lists(VALUES, max_size=9),
    indent=st.sampled_from([None, 1]),
    escaped=st.booleans(),
    rows=st.integers(0, 9),
)
def test_every_array_is_read(tmp_path_factory, values, indent, escaped, rows):
    values = [
        *values,
        *({"text": f"Zeile {number} ü\U0001f600", "n": number} for number in range(rows)),
    ]
    text = json.dumps(values, indent=indent, ensure_ascii=escaped)
    path = tmp_path_factory.mktemp("json") / "rows"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    if any(0xD800 <= ord(char) < 0xE000 for char in text):
        return
    items = read(path, name="json_array")
    expected = [
        value["text"]
        for value in values
        if isinstance(value, dict) and isinstance(value.get("text"), str)
    ]

    assert texts(items) == [text for text in expected if text.strip()]
    assert len(items) == (len(values) or 1)  # an array without elements is told

    data = path.read_bytes()
    for item in items:
        if isinstance(item, RawRecord):
            assert json.loads(data[item.locator : item.locator + item.length])["text"] == item.text


def test_elements_that_are_cut_by_the_buffer_are_whole(read_as, monkeypatch):
    """Input that comes a few bytes at a time, so that every element is cut somewhere."""
    monkeypatch.setattr("clozeline.pipeline.ingest.formats.decompression._OUTPUT_BYTES", 7)
    values = [{"text": "é" * number} for number in range(1, 60)] + [
        12345678901234,
        {"text": "x" * 200_000},
    ]
    items = read_as("\ufeff " + json.dumps(values, ensure_ascii=False))

    assert texts(items) == [value["text"] for value in values if isinstance(value, dict)]
    assert counted(items) == {"bad_json": 1}


@pytest.mark.parametrize(
    ("data", "found", "reasons"),
    [
        ("[]", 0, {"no_records": 1}),
        (' [ {"text": "a"} , {"text": "b"} ]\n', 2, {}),
        ('[{"text": "a"}, {"text": "b"}', 2, {"bad_json": 1}),
        ('[{"text": "a"}, {"text": }, {"text": "c"}]', 1, {"bad_json": 1}),
        ('[{"text": "a"} {"text": "b"}]', 1, {"bad_json": 1}),
        ('[{"text": "a"}, {"text": "5" screen"}, {"text": "b"}]', 1, {"bad_json": 1}),
        ('[{"text": "a"}, nonsense, {"text": "b"}]', 1, {"bad_json": 1}),
        ('[{"text": "a"}, {"text": "b"}, ]', 2, {}),
        ('[{"text": "a"}] junk', 1, {"bad_json": 1}),
        ('{"text": "a"}', 0, {"bad_json": 1}),
        (
            '[{"text": 3}, {"body": "x"}, [1], {"text": "\\ud800"}]',
            1,
            {"text_type": 1, "no_text": 1, "bad_json": 1},
        ),
        (b'[{"text": "\xff"}, {"text": "b"}]', 1, {"bad_utf8": 1}),
        ("[" * 100_000, 0, {"bad_json": 1}),
    ],
)
def test_broken_arrays(read_as, data, found, reasons):
    items = read_as(data)
    assert len(texts(items)) == found
    assert counted(items) == reasons


def test_an_element_over_the_limit_is_counted_and_the_last(read_as):
    rows = [{"text": text} for text in ("a", "x" * 4_000_000, "b")]
    items = read_as(json.dumps(rows), limits=InputLimits(line_bytes=50_000))
    assert texts(items) == ["a"]
    assert counted(items) == {"line_bytes": 1}
