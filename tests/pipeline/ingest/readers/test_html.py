import pytest

from tests.pipeline.captures import read

FILE = b"<html><p>A page."


def test_a_page_may_name_its_charset_and_a_text_may_not(tmp_path):
    path = tmp_path / "file"
    path.write_bytes('<meta charset="cp1251">Привет'.encode("cp1251"))
    assert read(path, name="html")[0].text.endswith("Привет")


@pytest.mark.parametrize("encoding", ["utf-8", "cp1251", "koi8-r", "utf-16"])
def test_a_page_is_given_as_markup_in_its_encoding(tmp_path, encoding):
    page = f"<html><head><meta charset='{encoding}'></head><p>Привет, мир</p>"
    path = tmp_path / "a.html"
    path.write_bytes(page.encode(encoding))
    (item,) = read(path, name="html")
    assert (item.text, item.markup, item.kind, item.flags) == (page, True, "html", 0)
