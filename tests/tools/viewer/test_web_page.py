"""Pages escape every string and mark every role."""

from __future__ import annotations

from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pages import checked
from tools.viewer.view import MEANINGS, Passage, Role, Sheet, Token, View
from tools.viewer.web_page import view_page

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12) | st.sampled_from(
    ["<b>", "&amp;", "</p>", '" onmouseover="x', "<script>alert(1)</script>", "]]>"]
)
TOKENS = st.builds(Token, TEXT, st.sampled_from(get_args(Role)), st.integers(0, 9), TEXT)


@settings(max_examples=25, deadline=None)
@given(TEXT, TEXT, st.lists(TOKENS, max_size=5), TEXT)
def test_every_string_is_text_and_none_is_markup(title: str, name: str, tokens: list[Token], cell: str) -> None:
    view = View(title, (Passage(name, tuple(tokens)), Sheet("table", (name, "b"), ((cell, tuple(tokens)),))))
    page = checked(view_page(view))
    shown = "".join(page.texts)
    for text in (title, name, cell, *(token.text for token in tokens)):
        assert text in shown
    assert not [tag for tag, _ in page.tags if tag in ("script", "b")]
    notes = [
        dict(attributes)["title"] for tag, attributes in page.tags if tag == "span" and "title" in dict(attributes)
    ]
    assert notes == [token.note for token in tokens if token.note] * 2


def test_numbers_have_colours_and_roles_a_legend() -> None:
    tokens = (Token("a", "sentinel", 0), Token("b", "sentinel", 7), Token("c", "masked", 7))
    page = view_page(View("row", (Passage("text", tokens),)))
    for mark in ('"s sentinel c0">a<', '"s sentinel c1">b<', '"s masked">c<'):
        assert mark in page
    assert MEANINGS["sentinel"] in page
    assert MEANINGS["span"] not in page
