"""Page and terminal show text as text, never as markup, and tell the roles apart."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from clozeline.report.console_view import ConsoleView, Passage, Sheet, print_view, view_page
from tests.pages import HOSTILE, checked

ROLES = (
    "special",
    "masked",
    "replaced",
    "unchanged",
    "sentinel",
    "prefix",
    "predicted",
    "marker",
    "",
)
WORDS = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P")),
    min_size=1,
    max_size=8,
)


def printed(view, **options):
    file = io.StringIO()
    print_view(view, Console(file=file, width=100, **options))
    return file.getvalue()


@settings(max_examples=25)
@given(
    WORDS,
    WORDS,
    st.lists(st.tuples(WORDS, st.sampled_from(ROLES)), max_size=4),
    WORDS,
)
def test_a_page_shows_every_string(title, name, tokens, cell):
    text = Text.assemble(*tokens)
    page = checked(
        view_page(
            ConsoleView(title, (Passage(name, text), Sheet("table", (name, "b"), ((cell, text),))))
        )
    )

    shown = "".join(page.texts)

    assert all(each in shown for each in (title, name, cell))
    assert shown.count(text.plain) >= 2


@pytest.mark.parametrize(
    "hostile", [HOSTILE, "<script>alert(1)</script>", "</pre><b>", "\x1b[31m\u202e"]
)
def test_no_string_is_markup_or_controls_a_terminal(hostile):
    view = ConsoleView(
        hostile, (Passage(hostile, Text("a")), Sheet(hostile, (hostile, "b"), ((hostile, "c"),)))
    )
    page = checked(view_page(view))

    assert not [tag for tag, _ in page.tags if tag in ("script", "b")]
    assert not {"\x1b", "\u202e", "\x00"} & {*printed(view), *str(view)}


def test_words_of_a_header_are_broken_only_where_a_terminal_has_no_room():
    header = ("language", "tokens per word", "% of text that is unknown", "another column of words")
    view = ConsoleView("title", (Sheet("sheet", header, (("en", "1", "2", "3"),)),))

    for width, whole in ((60, True), (20, False), (3, False)):
        console = Console(file=io.StringIO(), width=width)
        print_view(view, console)
        shown = console.file.getvalue()
        assert all(word in shown for word in ("language", "unknown", "another")) == whole
