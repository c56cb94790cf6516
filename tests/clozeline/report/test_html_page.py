from __future__ import annotations

import pytest

from clozeline.errors import StorageError
from clozeline.files import publish_text
from clozeline.report.html_page import (
    collapsible,
    escape,
    facts,
    grid,
    listing,
    page,
    quote,
    section,
    table,
    visible,
)
from tests.pages import HOSTILE, checked


def test_hostile_text_is_text_in_every_slot():
    parts = [
        facts({HOSTILE: HOSTILE}),
        section(HOSTILE, grid(quote(HOSTILE, HOSTILE))),
        collapsible(HOSTILE, listing(HOSTILE)),
        table([HOSTILE, "count"], [[HOSTILE, 1]]),
    ]
    text = page(HOSTILE, parts)
    parsed = checked(text)
    assert parsed.texts.count(visible(HOSTILE)) == 11
    text.encode()


def test_numbers_are_set_right_and_others_left():
    parsed = checked(page("", [table(["name", "count"], [["a", 1234567], ["b", 0.25]])]))
    assert [kind for tag, kind in parsed.tags if tag == "td"] == [{}, {"class": "n"}] * 2
    assert [kind for tag, kind in parsed.tags if tag == "th"] == [{"scope": "col"}, {"scope": "col", "class": "n"}]
    assert parsed.cells == ["name", "count", "a", "1,234,567", "b", "0.2"]


def test_parts_without_content_leave_nothing():
    assert section("title", "", "") == ""
    assert grid("", "") == ""
    assert checked(page("", [table(["", ""], [["a", 1]])])).count("th") == 0


def test_characters_that_no_page_may_hold_are_shown_as_such():
    assert escape("a\x00b\x1b\ud800\n\t<") == "a\ufffdb\ufffd\ufffd\n\t&lt;"


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    publish_text(tmp_path / "page.html", page("Ж 字", []))
    assert "Ж 字" in (tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(StorageError, match="cannot write"):
        publish_text(tmp_path / "page.html" / "below", "")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
