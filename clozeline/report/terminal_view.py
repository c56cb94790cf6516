"""Draw views on a terminal; every control character in a text is escaped."""

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text
from rich.theme import Theme

from clozeline.errors import show_controls
from clozeline.files import publish_text
from clozeline.report.charts import describe_chart
from clozeline.report.html_page import Viewed, page
from clozeline.report.views import (
    Bars,
    Block,
    Cell,
    Chart,
    Grid,
    Part,
    Passage,
    Section,
    Span,
    Table,
    cell_text,
    is_empty,
    is_number,
)
from clozeline.terminal import Terminal

_STYLES: Final = Theme(
    {
        "special": "dim",
        "marker": "dim cyan",
        "masked": "bold #ffffff on #a4161a",
        "replaced": "bold #000000 on #ffd166",
        "unchanged": "bold #000000 on #7bd88f",
        "sentinel": "bold #000000 on #6fd6e8",
        "prefix": "italic cyan",
        "predicted": "bold #000000 on #f2a2f2",
        "right": "bold green",
        "wrong": "strike red",
        "code": "",
    }
)
"""styles of texts, by role"""
_WIDTH: Final = 80
_COLUMN_PADDING: Final = 3
"""characters that a column of a table takes in addition to its text"""


@dataclass(frozen=True, slots=True, repr=False)
class View(Section, Viewed):
    """What a tool shows; `print` writes text, a notebook shows colors."""

    def view(self) -> Section:
        """Return the section itself."""
        return self

    def __str__(self) -> str:
        return view_text(self)

    def __repr__(self) -> str:
        return f"View({self.title})"


def print_view(view: Section, console: Console) -> None:
    """Print the title and the parts."""
    if view.title:
        console.rule(_text(view.title))
    with console.use_theme(_STYLES):
        for part in view.parts:
            for drawn in _draw(part, console):
                # lines of words may be longer than the terminal, tables may not
                console.print(drawn, soft_wrap=isinstance(drawn, Text) and drawn.no_wrap)


def show_view(view: Section, html: Path | None) -> None:
    """Print the view, and write it to `html` as a page unless that is None."""
    if html is not None:
        publish_text(html, page(view))
    print_view(view, Terminal())
    if html is not None:
        sys.stdout.write(f"page: {html}\n")


def view_text(view: Section) -> str:
    """Return what a terminal of 80 columns shows, without colors."""
    file = io.StringIO()
    print_view(view, Terminal(file=file, width=_WIDTH, color_system=None))
    return file.getvalue()


def _draw(part: Part, console: Console) -> Iterator[RenderableType]:
    if is_empty(part):
        return
    match part:
        case str():
            yield Text(part)
        case Section(title, parts):
            yield from _heading(title)
            for each in parts:
                yield from _draw(each, console)
        case Passage(title, spans, origin):
            yield from _heading(title)
            yield Text.assemble(*map(_text, spans))
            if origin:
                yield Text(show_controls(origin), "dim")
        case Table(title):
            yield from _heading(title)
            yield _draw_table(part, console.width)
        case Bars(title):
            rows = [(name, text) for name, text, _ in part.rows]
            yield from _draw(Table(title, (), rows), console)
        case Grid(blocks):
            # only a terminal breaks long lines
            yield from _align(blocks, console.width if console.is_terminal else None)
        case Chart():
            yield Text(show_controls(describe_chart(part)))


def _heading(title: str) -> Iterator[Text]:
    if title:
        yield Text(f"\n{show_controls(title)}", "bold")


def _draw_table(part: Table, width: int) -> RichTable:
    table = RichTable(
        box=box.SIMPLE_HEAD,
        show_header=bool(part.header),
        pad_edge=False,
        show_edge=False,
    )
    first = part.rows[0]
    names = part.header or [""] * len(first)

    # words of the header are not broken if all of them fit the terminal
    longest = [max(map(cell_len, name.split()), default=0) for name in names]
    header_fits = sum(longest) + _COLUMN_PADDING * len(names) <= width

    for name, least, cell in zip(names, longest, first, strict=True):
        table.add_column(
            _text(name),
            overflow="fold",
            min_width=least if header_fits else None,
            justify="right" if part.header and is_number(cell) else "left",
        )
    for row in part.rows:
        table.add_row(*map(_text, row))
    return table


def _text(cell: Cell) -> Text:
    return Text(show_controls(cell_text(cell)), cell.role if isinstance(cell, Span) else "")


def _align(blocks: Sequence[Block], width: int | None) -> Iterator[Text]:
    """Yield the lines of blocks; those of more than `width` columns continue, block by block."""
    indent = max(cell_len(title) for block in blocks for title, _ in block) + 2
    for block in blocks:
        columns = zip(*(words for _, words in block), strict=True)
        widths = [max(cell_len(word.text) for word in column) for column in columns]
        for first, last in _parts(widths, None if width is None else width - indent):
            for title, words in block:
                line = Text(_pad(title if first == 0 else "", indent), no_wrap=True)
                for word, size in zip(words[first:last], widths[first:last], strict=True):
                    line.append(_text(word)).append(_pad("", size - cell_len(word.text) + 1))
                line.rstrip()
                yield line


def _pad(text: str, columns: int) -> str:
    return text + " " * (columns - cell_len(text))


def _parts(widths: Sequence[int], room: int | None) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the columns that fit one line; a column that is too wide stands alone."""
    first = 0
    used = 0
    for column, size in enumerate(widths):
        if room is not None and column > first and used + size > room:
            yield first, column
            first = column
            used = 0
        used += size + 1
    yield first, len(widths)
