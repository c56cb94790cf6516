"""The terminal shows text as text: brackets of a document are no markup."""

from __future__ import annotations

import io

from rich.console import Console

from tools.viewer.terminal import print_view
from tools.viewer.view import MEANINGS, Passage, Sheet, Token, View

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
