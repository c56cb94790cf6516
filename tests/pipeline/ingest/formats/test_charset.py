"""Character encodings: which one is believed, and how many bytes may be wrong."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.ingest.documents.document import FLAG_DECODED_BY_GUESS, FLAG_REPLACEMENTS
from clozeline.pipeline.ingest.formats.charset import decode

FRENCH = (
    "Nobody knows when the old bridge was built, but it has been there for ages. " * 5
    + "Un café, naïf"
)
RUSSIAN = "Все люди рождаются свободными и равными в своем достоинстве и правах. " * 3


@given(st.text(st.characters(codec="utf-8", exclude_characters="\ufeff\ufffd\0")))
def test_utf_8_and_marked_texts_come_back(text):
    assert decode(text.encode()) == (text, 0)
    for mark, encoding in ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        assert decode(mark + text.encode(encoding), "latin-1") == (text, 0), (
            "the mark wins over what is declared"
        )


@pytest.mark.parametrize(
    ("body", "declared", "meta", "wanted"),
    [
        (RUSSIAN.encode("cp1251"), "windows-1251", False, (RUSSIAN, 0)),
        *(
            (RUSSIAN.encode(), name, False, (RUSSIAN, 0))
            for name in ("no-such", "zlib", "idna", "utf-7", "../x")
        ),
        (
            b'<meta charset="koi8-r">' + RUSSIAN.encode("koi8-r"),
            None,
            True,
            ('<meta charset="koi8-r">' + RUSSIAN, 0),
        ),
        (b"x" * 4096 + b"<meta charset=koi8-r>\xe4", None, True, None),
        (RUSSIAN.encode("cp1251"), None, False, (RUSSIAN, FLAG_DECODED_BY_GUESS)),
        (
            FRENCH.encode("cp1252"),
            None,
            False,
            (FRENCH, FLAG_DECODED_BY_GUESS),
        ),  # few bytes are not ASCII
    ],
)
def test_what_is_named_is_believed_if_every_byte_fits(body, declared, meta, wanted):
    found = decode(body, declared, meta=meta)
    if wanted is None:
        assert found is None or found[1], "a name after the first 4,096 bytes is not looked for"
    else:
        assert found == wanted


def test_a_declared_encoding_that_does_not_fit_gives_way_to_utf_8():
    text = "größer " * 40
    assert decode(text.encode(), "iso-2022-jp") == (text, FLAG_DECODED_BY_GUESS)


@pytest.mark.parametrize(
    ("bad", "kept"), [(0, True), (9, True), (10, True), (11, False), (200, False)]
)
def test_one_byte_in_a_hundred_may_be_replaced(bad, kept):
    body = "ü".encode() * (1000 - bad) + b"\xff" * bad
    found = decode(body)

    if kept:
        assert found == ("ü" * (1000 - bad) + "\ufffd" * bad, FLAG_REPLACEMENTS if bad else 0)
    else:
        assert found is None or found[1] == FLAG_DECODED_BY_GUESS


@given(
    st.binary(max_size=200), st.none() | st.sampled_from(["utf-8", "latin-1", "utf-16", "gbk", "x"])
)
def test_any_bytes_have_an_answer(body, declared):
    found = decode(body, declared, meta=True)
    if found is not None:
        text, flags = found
        text.encode()
        assert ("\ufffd".encode() in body or "\ufffd" not in text) or flags & FLAG_REPLACEMENTS


def test_binary_data_is_no_text():
    assert decode(bytes(range(256)) * 20) is None
    assert decode(b"\x00\xff" * 500) is None


@pytest.mark.parametrize(
    ("text", "label", "codec"),
    [
        ("髙橋さんは①番の㈱会社で働く", "shift_jis", "cp932"),
        ("젊은 펲시 콜라", "euc-kr", "cp949"),
        ("เขาพูดว่า “สวัสดี” – แล้วไป", "windows-874", "cp874"),
        ("价格是 5€ 吗", "gbk", "gb18030"),
        ("“quoted” – text…", "iso-8859-1", "cp1252"),
    ],
)
@pytest.mark.parametrize("place", ["header", "meta", "pragma", "xml"])
def test_a_label_means_what_the_web_means_by_it(text, label, codec, place):
    head = {
        "header": "",
        "meta": f"<meta charset={label}>",
        "pragma": f'<meta http-equiv="Content-Type" content="text/html; charset={label}">',
        "xml": f'<?xml version="1.0" encoding="{label}"?>',
    }[place]

    page = head + "<p>" + text * 3
    body = (
        page.encode(codec)
        if "€" not in text
        else page.encode("gb18030").replace("€".encode("gb18030"), b"\x80")
    )

    assert decode(body, label if place == "header" else None, meta=True) == (page, 0)


@pytest.mark.parametrize("label", ["utf-16", "UTF-16LE", "utf-16be", "unicode", "ucs-2"])
def test_a_page_that_names_utf_16_in_ascii_is_utf_8(label):
    page = f"<meta charset={label}><p>größer, größer"
    assert decode(page.encode(), None, meta=True) == (page, 0)
    assert decode(page.encode("utf-16-le"), "utf-16") == (page, 0), "in a header it counts"


def test_one_unknown_character_of_iso_2022_jp_is_lost():
    text = "東京へ行きます。" * 20
    # a circled digit, which the standard lacks
    body = text.encode("iso2022_jp") + b"\x1b$B\x2d\x21\x1b(B"
    assert decode(body, "iso-2022-jp") == (text + "\ufffd", FLAG_REPLACEMENTS)


@pytest.mark.parametrize("label", ["iso-8859-1", "windows-1251"])
def test_valid_utf_8_under_the_label_of_single_bytes(label):
    assert decode("größer, süßer".encode(), label) == ("größer, süßer", FLAG_DECODED_BY_GUESS)
    assert decode("Â".encode("latin-1") + b"\xa9 ", "iso-8859-1") == ("Â© ", 0), (
        "one character is an accident"
    )


def test_a_guess_that_gives_control_characters_is_none():
    japanese = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。" * 3
    assert decode(japanese.encode("cp932")) == (japanese, FLAG_DECODED_BY_GUESS)
    assert decode("안녕하세요 세계".encode("cp949") * 3) is None
