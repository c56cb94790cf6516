"""A view as one self-contained page: no script, nothing from elsewhere, every string escaped."""

from __future__ import annotations

from typing import Final

from pipeline.html_page import escape, page, section
from tools.viewer.view import Cell, Passage, Sheet, Token, View

__all__ = ["view_page"]

_HUES: Final = (300, 185, 45, 130, 220, 5)
_STYLE: Final = """
p.t{white-space:pre-wrap;line-height:1.9;font-family:ui-monospace,monospace;font-size:.9rem;max-width:none}
td,td:first-child{white-space:pre-wrap}[title]:hover{outline:1px solid var(--muted)}
.s{border-radius:3px}.masked,.replaced,.kept,.moved,.predicted,.c0,.c1,.c2,.c3,.c4,.c5{color:#1b2330}
.special{color:var(--muted)}.marker,.prefix{color:var(--c2)}.prefix{font-style:italic}
.masked{background:#d7263d;color:#fff}.replaced{background:#ffd23f}.kept{background:#9be29b}
.moved{background:#a9c8ff}.predicted{background:#e3b7f2}
.span{text-decoration:underline}.sentinel,.infilled{font-weight:700}
""" + "".join(f".c{number}{{background:hsl({hue} 75% 86%)}}" for number, hue in enumerate(_HUES))
_NUMBERED: Final = {"sentinel", "span", "infilled", "sentence"}


def view_page(view: View) -> str:
    """Return the page's HTML."""
    parts = [_passage(part) if isinstance(part, Passage) else _sheet(part) for part in view.parts]
    legend = " ".join(_token(token) for token in view.legend())
    return page(view.title, [*parts, section("Legend", f"<p class=t>{legend}</p>")], style=_STYLE)


def _token(token: Token) -> str:
    if token.role == "plain" and not token.note:
        return escape(token.text)
    colour = f" c{token.number % len(_HUES)}" if token.role in _NUMBERED else ""
    note = f' title="{escape(token.note)}"' if token.note else ""
    return f'<span class="s {token.role}{colour}"{note}>{escape(token.text)}</span>'


def _cell(cell: Cell) -> str:
    return escape(cell) if isinstance(cell, str) else "".join(_token(token) for token in cell)


def _passage(part: Passage) -> str:
    return section(part.title, f"<p class=t>{_cell(part.tokens)}</p>")


def _sheet(part: Sheet) -> str:
    header = "".join(f"<th>{escape(name)}</th>" for name in part.header)
    rows = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in part.rows)
    return section(part.title, f"<div class=scroll tabindex=0><table><tr>{header}</tr>{rows}</table></div>")
