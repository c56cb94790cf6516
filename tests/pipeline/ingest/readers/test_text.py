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
