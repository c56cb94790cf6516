"""Render a view on the terminal, in color where supported, or as one self-contained web page without scripts."""

import io
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from clozeline.pipeline.corrupt.preview.view import NUMBERED, Cell, Passage, Role, Token, View
from clozeline.report.html_page import escape, fragment, page, scrollable, section
from clozeline.terminal import Terminal

_STYLES: Final[dict[Role, str]] = {
    "plain": "", "special": "dim", "marker": "dim cyan", "masked": "bold white on red",
    "replaced": "bold black on yellow", "kept": "bold black on green", "sentinel": "bold reverse",
    "span": "underline", "infilled": "bold reverse", "sentence": "", "moved": "black on bright_blue",
    "prefix": "italic cyan", "predicted": "bold black on bright_magenta",
}  # fmt: skip
_COLORS: Final = ("bright_magenta", "bright_cyan", "bright_yellow", "bright_green", "bright_blue", "bright_red")
_WIDTH: Final = 80
_HUES: Final = (300, 185, 45, 130, 220, 5)
_PAGE_STYLE: Final = """
p.t{white-space:pre-wrap;line-height:1.9;font-family:ui-monospace,monospace;font-size:.9rem;max-width:none}
td,td:first-child{white-space:pre-wrap}[title]:hover{outline:1px solid var(--muted)}
.s{border-radius:3px}.masked,.replaced,.kept,.moved,.predicted,.c0,.c1,.c2,.c3,.c4,.c5{color:#1b2330}
.special{color:var(--muted)}.marker,.prefix{color:var(--c2)}.prefix{font-style:italic}
.masked{background:#d7263d;color:#fff}.replaced{background:#ffd23f}.kept{background:#9be29b}
.moved{background:#a9c8ff}.predicted{background:#e3b7f2}
.span{text-decoration:underline}.sentinel,.infilled{font-weight:700}
""" + "".join(f".c{number}{{background:hsl({hue} 75% 86%)}}" for number, hue in enumerate(_HUES))


class ShownView(View):
    """A view that `print` writes as plain text, and that a notebook shows in color."""

    __slots__ = ()

    def __str__(self) -> str:
        file = io.StringIO()
        print_view(self, Terminal(file=file, width=_WIDTH, color_system=None))
        return file.getvalue()

    def __repr__(self) -> str:
        return f"ShownView({self.title})"

    def _repr_html_(self) -> str:
        return view_fragment(self)


def print_view(view: View, console: Console) -> None:
    """Print title, parts and legend."""
    console.rule(Text(view.title))
    for part in view.parts:
        if isinstance(part, Passage):
            console.print(Text(f"\n{part.title}", "bold"))
            console.print(_to_text(part.tokens))
        else:
            table = Table(title=Text(f"\n{part.title}"), title_justify="left", title_style="bold",
                          box=box.SIMPLE_HEAD, show_header=bool(part.header), pad_edge=False)  # fmt: skip
            for name in part.header or ("", ""):
                table.add_column(Text(name), overflow="fold")
            for row in part.rows:
                table.add_row(*map(_to_text, row))
            console.print(table)
    if legend := view.legend():
        console.print()
    for token in legend:
        console.print(Text.assemble(" ", (f" {token.text} ", _token_style(token))))


def view_page(view: View) -> str:
    """Return the HTML of a page; every string is escaped."""
    return page(view.title, _sections(view), style=_PAGE_STYLE)


def view_fragment(view: View) -> str:
    """Return HTML for the output of a notebook's cell: the parts of the page, with their styles alone."""
    return fragment(view.title, _sections(view), style=_PAGE_STYLE)


def _sections(view: View) -> list[str]:
    parts = []
    for part in view.parts:
        if isinstance(part, Passage):
            parts.append(section(part.title, f"<p class=t>{_to_html(part.tokens)}</p>"))
            continue
        header = "".join(f"<th>{escape(name)}</th>" for name in part.header)
        rows = "".join(f"<tr>{''.join(f'<td>{_to_html(cell)}</td>' for cell in row)}</tr>" for row in part.rows)
        parts.append(section(part.title, scrollable(f"<tr>{header}</tr>{rows}")))
    if legend := " ".join(map(_to_span, view.legend())):
        parts.append(section("Legend", f"<p class=t>{legend}</p>"))
    return parts


def _token_style(token: Token) -> str:
    color = _COLORS[token.number % len(_COLORS)] if token.role in NUMBERED else ""
    return f"{_STYLES[token.role]} {color}".strip()


def _to_text(cell: Cell) -> Text:
    if isinstance(cell, str):
        return Text(cell)
    return Text.assemble(*((token.text, _token_style(token)) for token in cell))


def _to_html(cell: Cell) -> str:
    return escape(cell) if isinstance(cell, str) else "".join(map(_to_span, cell))


def _to_span(token: Token) -> str:
    if token.role == "plain" and not token.note:
        return escape(token.text)
    color = f" c{token.number % len(_HUES)}" if token.role in NUMBERED else ""
    note = f' title="{escape(token.note)}"' if token.note else ""
    return f'<span class="s {token.role}{color}"{note}>{escape(token.text)}</span>'
