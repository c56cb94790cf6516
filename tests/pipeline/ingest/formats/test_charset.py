"""Character encodings: which one is believed, and how many bytes may be wrong."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.ingest.documents.document import FLAG_DECODED_BY_GUESS, FLAG_REPLACEMENTS
from clozeline.pipeline.ingest.formats.charset import decode

RUSSIAN = "Все люди рождаются свободными и равными в своем достоинстве и правах. " * 3


@given(st.text(st.characters(codec="utf-8", exclude_characters="\ufeff\ufffd\0")))
def test_utf_8_and_marked_texts_come_back(text: str) -> None:
    assert decode(text.encode()) == (text, 0)
    for mark, encoding in ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        assert decode(mark + text.encode(encoding), "latin-1") == (text, 0), "the mark wins over what is declared"


@pytest.mark.parametrize(
    ("body", "declared", "meta", "wanted"),
    [
        (RUSSIAN.encode("cp1251"), "windows-1251", False, (RUSSIAN, 0)),
        (RUSSIAN.encode("koi8-r"), "KOI8-R", False, (RUSSIAN, 0)),
        (RUSSIAN.encode(), "no-such-charset", False, (RUSSIAN, 0)),
        (RUSSIAN.encode(), "ascii-with-errors", False, (RUSSIAN, 0)),
        (b'<meta charset="koi8-r">' + RUSSIAN.encode("koi8-r"), None, True, ('<meta charset="koi8-r">' + RUSSIAN, 0)),
        (b"x" * 1024 + b"<meta charset=koi8-r>\xe4", None, True, None),
        (RUSSIAN.encode("cp1251"), None, False, (RUSSIAN, FLAG_DECODED_BY_GUESS)),
    ],
)
def test_what_is_named_is_believed_if_every_byte_fits(
    body: bytes, declared: str | None, meta: bool, wanted: tuple[str, int] | None
) -> None:
    found = decode(body, declared, meta=meta)
    if wanted is None:
        assert found is None or found[1], "a name after the first 1,024 bytes is not looked for"
    else:
        assert found == wanted


def test_a_declared_encoding_that_does_not_fit_gives_way_to_utf_8() -> None:
    text = "größer " * 40
    assert decode(text.encode(), "iso-2022-jp") == (text, 0)


@pytest.mark.parametrize(("bad", "kept"), [(0, True), (9, True), (10, True), (11, False), (200, False)])
def test_one_byte_in_a_hundred_may_be_replaced(bad: int, kept: bool) -> None:
    body = "ü".encode() * (1000 - bad) + b"\xff" * bad
    found = decode(body)
    if kept:
        assert found == ("ü" * (1000 - bad) + "\ufffd" * bad, FLAG_REPLACEMENTS if bad else 0)
    else:
        assert found is None or found[1] == FLAG_DECODED_BY_GUESS


@given(st.binary(max_size=200), st.none() | st.sampled_from(["utf-8", "latin-1", "utf-16", "gbk", "x"]))
def test_any_bytes_have_an_answer(body: bytes, declared: str | None) -> None:
    found = decode(body, declared, meta=True)
    if found is not None:
        text, flags = found
        text.encode()
        assert ("\ufffd".encode() in body or "\ufffd" not in text) or flags & FLAG_REPLACEMENTS


def test_binary_data_is_no_text() -> None:
    assert decode(bytes(range(256)) * 20) is None
    assert decode(b"\x00\xff" * 500) is None
