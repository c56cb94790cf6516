from __future__ import annotations

import pytest

from clozeline.pipeline.ingest.documents.document import FLAG_DECODED_BY_GUESS
from tests.pipeline.captures import read


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_text_is_given_whole_in_whatever_encoding_fits(tmp_path, encoding):
    path = tmp_path / "a.txt"
    text = "Grüße\r\naus\n\nKöln <b>\0"
    path.write_bytes(text.encode(encoding))
    (item,) = read(path, name="text")
    assert (item.text, item.markup, item.kind, item.locator) == (text, False, "text", 0)


def test_markup_names_no_encoding_for_a_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b'<meta charset="cp1251">' + "déjà vu, naïve café ".encode("latin-1") * 5)
    (item,) = read(path, name="text")
    assert item.text.endswith("naïve café ")
    assert item.flags == FLAG_DECODED_BY_GUESS


BOOK = "A Novel\n\nCHAPTER I\nIt begins. CHAPTER is a word.\n\nCHAPTER II\nEnd.\n"


@pytest.mark.parametrize(
    ("split", "chapters"),
    [
        (
            {"pattern": "^CHAPTER "},
            ["A Novel\n\n", "CHAPTER I\nIt begins. CHAPTER is a word.\n\n", "CHAPTER II\nEnd.\n"],
        ),
        ({"pattern": "^CHAPTER ", "min_words": 4}, [BOOK[: BOOK.index("CHAPTER II")] + "CHAPTER II\nEnd.\n"]),
        ({"pattern": "^CHAPTER ", "min_words": 3}, [BOOK[: BOOK.index("CHAPTER II")], "CHAPTER II\nEnd.\n"]),
        ({"pattern": "^NOTHING "}, [BOOK]),
        ({"pattern": "x*"}, [BOOK]),
    ],
)
def test_books_are_split_at_their_chapters(tmp_path, split, chapters):
    path = tmp_path / "a.txt"
    path.write_bytes(BOOK.encode())
    items = list(read(path, name="text", split=split))
    assert [item.text for item in items] == chapters
    # each locator leads to the bytes of its chapter
    for item in items:
        assert path.read_bytes()[item.locator : item.locator + item.length].decode() == item.text
        assert item.kind == "chapter"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_chapters_of_any_encoding_are_found(tmp_path, encoding):
    path = tmp_path / "a.txt"
    path.write_bytes(("déjà vu, naïve café " * 9 + "\nCHAPTER I\n" + "déjà vu, naïve café " * 9).encode(encoding))
    items = list(read(path, name="text", split={"pattern": "^CHAPTER"}))
    assert len(items) == 2
