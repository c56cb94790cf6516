"""Page and terminal show text as text, never as markup, and tell the roles apart."""

from __future__ import annotations

import io
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from clozeline.pipeline.corrupt.preview.rendering import ShownView, print_view, view_fragment, view_page
from clozeline.pipeline.corrupt.preview.view import MEANINGS, Passage, Role, Sheet, Token, View
from tests.pages import checked

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


VIEW = View(
    "row 3 of [bold]set[/bold]",
    (
        Passage("the [red]row[/red]", (Token("[link=x]a"), Token("b", "masked"), Token("c", "span", 3))),
        Sheet("[u]facts", ("[i]name", "value"), (("[/]", (Token("d", "special"),)), ("e", "f"))),
        Sheet("pairs", (), (("left", "right"),)),
    ),
)


def printed(**options: object) -> str:
    file = io.StringIO()
    print_view(VIEW, Console(file=file, width=100, **options))  # type: ignore[arg-type]
    return file.getvalue()


def test_everything_is_shown_as_it_is_written() -> None:
    shown = printed()
    assert "\x1b" not in shown
    for text in ("row 3 of [bold]set[/bold]", "the [red]row[/red]", "[link=x]abc", "[u]facts", "[i]name", "[/]"):
        assert text in shown
    assert all(word in shown for word in ("value", "d", "e", "f", "left", "right"))
    assert all(MEANINGS[role] in shown for role in ("masked", "span", "special"))
    assert MEANINGS["moved"] not in shown


def test_roles_differ_and_numbers_have_colours() -> None:
    shown = printed(force_terminal=True, color_system="truecolor")
    plain, masked, span = shown.index("[link=x]a"), shown.index("b\x1b"), shown.index("c\x1b")
    assert plain < masked < span
    styles = [shown[shown.rindex("\x1b[", 0, place) : place] for place in (masked, span)]
    assert styles[0] != styles[1]


def test_a_fragment_has_the_parts_of_the_page_and_rules_for_itself_alone() -> None:
    fragment = view_fragment(VIEW)
    assert fragment.startswith("<div class=clozeline><style>.clozeline{")
    rules = fragment.partition("<style>")[2].partition("</style>")[0]
    depth, outermost = 0, []
    for position, sign in enumerate(rules):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth == 0 and sign == "}":
            outermost.append(position)
    assert outermost == [len(rules) - 1], "a rule reaches elements outside of the fragment"
    page = view_page(VIEW)
    assert fragment.partition("</style>")[2].count("<section>") == page.count("<section>")
    assert "&lt;" not in fragment
    assert "the [red]row[/red]" in fragment


def test_each_line_of_the_legend_has_one_role() -> None:
    lines = [line.strip() for line in printed().splitlines()]
    assert lines[-3:] == [MEANINGS[role] for role in ("special", "masked", "span")]


def test_a_shown_view_prints_the_text_of_the_terminal() -> None:
    shown = ShownView(VIEW.title, VIEW.parts)
    assert str(shown).splitlines()[1:] == printed().splitlines()[1:]
    assert shown._repr_html_() == view_fragment(VIEW)
    assert repr(shown) == "ShownView(row 3 of [bold]set[/bold])"
