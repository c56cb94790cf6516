"""Views of a row: passages of marked tokens and tables, on a terminal, in a notebook or as a page."""

import io
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

_STYLES: Final = Theme({
    "special": "dim", "marker": "dim cyan", "masked": "bold white on red", "replaced": "bold black on yellow",
    "kept": "bold black on green", "sentinel": "bold black on bright_cyan", "prefix": "italic cyan",
    "predicted": "bold black on bright_magenta",
})  # fmt: skip
"""Styles of tokens, by their roles."""
_WIDTH: Final = 80
_BESIDE: Final = 3
"""Columns that a column of a table takes beside its text."""
_PAGE_WIDTH: Final = 120

Cell: TypeAlias = str | Text


@dataclass(frozen=True, slots=True)
class Passage:
    """Running text, with the styles of its roles."""

    title: str
    text: Text

    def shortened(self, rows: int) -> "Passage":
        """Return it as it is: `Pieces` limits its tokens."""
        return self


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table; one with an empty header lists names and values."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def shortened(self, rows: int) -> "Sheet":
        """Return it with at most so many rows, and a last one that counts the others."""
        if len(self.rows) <= rows:
            return self
        others = (f"… {len(self.rows) - rows:,} more", *[""] * (len(self.rows[0]) - 1))
        return Sheet(self.title, self.header, (*self.rows[:rows], others))


Parts: TypeAlias = Sequence[Passage | Sheet]


@dataclass(frozen=True, slots=True, repr=False)
class View:
    """A title with the parts below it; `print` writes it as plain text, and a notebook shows it in color."""

    title: str
    parts: Parts

    def __str__(self) -> str:
        file = io.StringIO()
        print_view(self, Terminal(file=file, width=_WIDTH, color_system=None))
        return file.getvalue()

    def __repr__(self) -> str:
        return f"View({self.title})"

    def _repr_html_(self) -> str:
        return fragment(self.title, [view_html(self)])


def print_view(view: View, console: Console) -> None:
    """Print the title and the parts."""
    console.rule(_text(view.title))
    with console.use_theme(_STYLES):
        for part in view.parts:
            if isinstance(part, Passage):
                console.print(Text(f"\n{show_controls(part.title)}", "bold"))
                console.print(part.text)
                continue
            table = Table(title=_text(f"\n{part.title}"), title_justify="left", title_style="bold",
                          box=box.SIMPLE_HEAD, show_header=bool(part.header), pad_edge=False)  # fmt: skip
            names = part.header or ("", "")
            # words of the header are not broken where the terminal has room for all of them
            longest = [max(map(cell_len, name.split()), default=0) for name in names]
            has_room = sum(longest) + _BESIDE * len(names) <= console.width
            for name, width in zip(names, longest, strict=True):
                table.add_column(_text(name), overflow="fold", min_width=width if has_room else None)
            for row in part.rows:
                table.add_row(*map(_text, row))
            console.print(table)


def view_page(view: View) -> str:
    """Return the HTML of a page, which shows what a terminal does; every string is escaped."""
    return page(view.title, [view_html(view)])


def show_view(view: View, html: Path | None) -> None:
    """Write a page if a file is given, and print the view."""
    if html is not None:
        publish_text(html, view_page(view))
    print_view(view, Terminal())
    if html is not None:
        sys.stdout.write(f"page: {html}\n")


def view_html(view: View) -> str:
    """Return the HTML of a view, which shows what a terminal does; every string is escaped."""
    console = Terminal(record=True, file=io.StringIO(), width=_PAGE_WIDTH, color_system="truecolor")
    print_view(view, console)
    return console.export_html(code_format="<pre class=scroll tabindex=0>{code}</pre>", inline_styles=True)


def _text(cell: Cell) -> Text:
    return Text(show_controls(cell)) if isinstance(cell, str) else cell
