"""A view on the terminal, in colour where the terminal has colours."""

from __future__ import annotations

from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tools.viewer.view import Cell, Passage, Role, Sheet, Token, View

__all__ = ["print_view"]

_STYLES: Final[dict[Role, str]] = {
    "plain": "",
    "special": "dim",
    "marker": "dim cyan",
    "masked": "bold white on red",
    "replaced": "bold black on yellow",
    "kept": "bold black on green",
    "sentinel": "bold reverse",
    "span": "underline",
    "infilled": "bold reverse",
    "sentence": "",
    "moved": "black on bright_blue",
    "prefix": "italic cyan",
    "predicted": "bold black on bright_magenta",
}
_COLOURS: Final = ("bright_magenta", "bright_cyan", "bright_yellow", "bright_green", "bright_blue", "bright_red")
_NUMBERED: Final = {"sentinel", "span", "infilled", "sentence"}


def _style(token: Token) -> str:
    colour = _COLOURS[token.number % len(_COLOURS)] if token.role in _NUMBERED else ""
    return f"{_STYLES[token.role]} {colour}".strip()


def _text(cell: Cell) -> Text:
    text = Text(cell) if isinstance(cell, str) else Text()
    if not isinstance(cell, str):
        for token in cell:
            text.append(token.text, _style(token))
    return text


def print_view(view: View, console: Console) -> None:
    """Print title, parts and legend."""
    console.rule(Text(view.title))
    for part in view.parts:
        if isinstance(part, Passage):
            console.print(Text(f"\n{part.title}", "bold"))
            console.print(_text(part.tokens))
        else:
            console.print(_table(part))
    legend = Text("\n")
    for token in view.legend():
        legend.append(f" {token.text} ", _style(token)).append("  ")
    if legend.plain.strip():
        console.print(legend)


def _table(sheet: Sheet) -> Table:
    table = Table(title=Text(f"\n{sheet.title}"), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
                  show_header=bool(sheet.header), pad_edge=False)  # fmt: skip
    for name in sheet.header or ("", ""):
        table.add_column(Text(name), overflow="fold")
    for row in sheet.rows:
        table.add_row(*(_text(cell) for cell in row))
    return table
