"""A view as one self-contained page: no script, nothing from elsewhere, every string escaped."""

from __future__ import annotations

import html
from typing import Final

from pipeline.html_page import page
from tools.viewer.view import Cell, Passage, Sheet, Token, View

__all__ = ["view_page"]

_HUES: Final = (300, 185, 45, 130, 220, 5)
_STYLE: Final = """
p.t{white-space:pre-wrap;line-height:1.9;font-family:ui-monospace,monospace;font-size:14px;overflow-wrap:anywhere}
td{vertical-align:top;white-space:pre-wrap;overflow-wrap:anywhere}
.s{border-radius:3px}[title]:hover{outline:1px solid #8893a5}
.special{color:#8a94a3}.marker{color:#12808c}.masked{background:#d7263d;color:#fff}.replaced{background:#ffd23f}
.kept{background:#9be29b}.moved{background:#a9c8ff}.prefix{color:#12808c;font-style:italic}.predicted{background:#e3b7f2}
.span{text-decoration:underline}.sentinel,.infilled{font-weight:700}
""" + "".join(f".c{number}{{background:hsl({hue} 75% 86%)}}" for number, hue in enumerate(_HUES))
_NUMBERED: Final = {"sentinel", "span", "infilled", "sentence"}


def view_page(view: View) -> str:
    """The page's HTML."""
    parts = [_passage(part) if isinstance(part, Passage) else _sheet(part) for part in view.parts]
    legend = " ".join(_token(token) for token in view.legend())
    return page(view.title, [*parts, f"<h2>Legend</h2><p class=t>{legend}</p>"], style=_STYLE)


def _token(token: Token) -> str:
    if token.role == "plain" and not token.note:
        return html.escape(token.text)
    colour = f" c{token.number % len(_HUES)}" if token.role in _NUMBERED else ""
    note = f' title="{html.escape(token.note)}"' if token.note else ""
    return f'<span class="s {token.role}{colour}"{note}>{html.escape(token.text)}</span>'


def _cell(cell: Cell) -> str:
    return html.escape(cell) if isinstance(cell, str) else "".join(_token(token) for token in cell)


def _passage(part: Passage) -> str:
    return f"<h2>{html.escape(part.title)}</h2><p class=t>{_cell(part.tokens)}</p>"


def _sheet(part: Sheet) -> str:
    header = "".join(f"<th>{html.escape(name)}</th>" for name in part.header)
    rows = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in part.rows)
    return f"<h2>{html.escape(part.title)}</h2><table><tr>{header}</tr>{rows}</table>"
