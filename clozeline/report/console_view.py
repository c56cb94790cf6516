"""Show marked text and tables: on a terminal, in a notebook or on a page."""

import io
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from clozeline.errors import show_controls
from clozeline.files import publish_text
from clozeline.report.html_page import fragment, page
from clozeline.terminal import Terminal

STYLES: Final = Theme(
    {
        "special": "dim",
        "marker": "dim cyan",
        "masked": "bold white on red",
        "replaced": "bold black on yellow",
        "unchanged": "bold black on green",
        "sentinel": "bold black on bright_cyan",
        "prefix": "italic cyan",
        "predicted": "bold black on bright_magenta",
    }
)
"""styles of tokens, by role"""
_WIDTH: Final = 80
_COLUMN_PADDING: Final = 3
"""characters that a column of a table takes in addition to its text"""
_PAGE_WIDTH: Final = 120

Cell: TypeAlias = str | Text


@dataclass(frozen=True, slots=True)
class Passage:
    """Running text in which styles mark the roles of tokens."""

    title: str
    text: Text

    def shorten(self, rows: int) -> "Passage":
        """Return the passage unchanged: `TokenRenderer` limits its tokens."""
        return self


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table; with an empty header it lists names and values."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def shorten(self, rows: int) -> "Sheet":
        """Return the table with at most `rows` rows, and a last row that counts the others."""
        if len(self.rows) <= rows:
            return self
        others = (f"… {len(self.rows) - rows:,} more", *[""] * (len(self.rows[0]) - 1))
        return Sheet(self.title, self.header, (*self.rows[:rows], others))


Parts: TypeAlias = Sequence[Passage | Sheet]


@dataclass(frozen=True, slots=True, repr=False)
class ConsoleView:
    """A title with passages and tables below; `print` writes text, a notebook shows colors."""

    title: str
    parts: Parts

    def __str__(self) -> str:
        file = io.StringIO()
        print_view(self, Terminal(file=file, width=_WIDTH, color_system=None))
        return file.getvalue()

    def __repr__(self) -> str:
        return f"ConsoleView({self.title})"

    def _repr_html_(self) -> str:
        return fragment(self.title, [view_html(self)])


def print_view(view: ConsoleView, console: Console) -> None:
    """Print the title and the parts."""
    console.rule(_text(view.title))

    with console.use_theme(STYLES):
        for part in view.parts:
            if isinstance(part, Passage):
                console.print(Text(f"\n{show_controls(part.title)}", "bold"))
                console.print(part.text)
                continue

            table = Table(
                title=_text(f"\n{part.title}"),
                title_justify="left",
                title_style="bold",
                box=box.SIMPLE_HEAD,
                show_header=bool(part.header),
                pad_edge=False,
            )

            names = part.header or ("", "")

            # words of the header are not broken if all of them fit the terminal
            longest = [max(map(cell_len, name.split()), default=0) for name in names]
            header_fits = sum(longest) + _COLUMN_PADDING * len(names) <= console.width

            for name, width in zip(names, longest, strict=True):
                table.add_column(
                    _text(name), overflow="fold", min_width=width if header_fits else None
                )

            for row in part.rows:
                table.add_row(*map(_text, row))
            console.print(table)


def view_page(view: ConsoleView) -> str:
    """Return an HTML page that shows the same as a terminal; every string is escaped."""
    return page(view.title, [view_html(view)])


def show_view(view: ConsoleView, html: Path | None) -> None:
    """Print the view, and write it to `html` as a page unless that is None."""
    if html is not None:
        publish_text(html, view_page(view))
    print_view(view, Terminal())
    if html is not None:
        sys.stdout.write(f"page: {html}\n")


def view_html(view: ConsoleView) -> str:
    """Return the HTML of a view, which shows the same as a terminal; every string is escaped."""
    console = Terminal(record=True, file=io.StringIO(), width=_PAGE_WIDTH, color_system="truecolor")
    print_view(view, console)
    return console.export_html(
        code_format="<pre class=scroll tabindex=0>{code}</pre>", inline_styles=True
    )


def _text(cell: Cell) -> Text:
    return Text(show_controls(cell)) if isinstance(cell, str) else cell


_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)


def visible(text: str) -> str:
    """Replace line ends, tabs and invisible characters with visible symbols.

    So a text cannot control a terminal.
    """
    shown = text.replace("\n", "⏎\n").replace("\t", "⇥\t")
    return _INVISIBLE.sub(lambda match: f"<U+{ord(match.group()):04X}>", shown)
