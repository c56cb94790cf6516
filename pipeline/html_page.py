"""One page, table and bar chart for every report: a single HTML file, every string escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

__all__ = ["bars", "page", "table"]

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem;color:#1c2430;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse}
td,th{padding:.2rem .8rem .2rem 0;text-align:left;border-bottom:1px solid #e3e7ee}td.n,th.n{text-align:right;
font-variant-numeric:tabular-nums}code{font-family:ui-monospace,monospace}
"""


def page(title: str, parts: Iterable[str], style: str = "") -> str:
    """A whole HTML page without any external reference. `parts` are trusted HTML made by this module's functions."""
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>"
    return f"{head}<style>{_STYLE}{style}</style><h1>{html.escape(title)}</h1>{''.join(parts)}</html>\n"


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """An HTML table; numbers are set right, and so are the names of columns that hold them."""
    lines = list(rows)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in lines)
    right = [isinstance(value, int | float) for value in (lines[0] if lines else header)]
    names = (f"<th{' class=n' * number}>{html.escape(name)}</th>" for name, number in zip(header, right, strict=True))
    return f"<table><tr>{''.join(names)}</tr>{body}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, (int, float)):
        shown = f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
        return f"<td class=n>{shown}</td>"
    return f"<td>{html.escape(str(value))}</td>"


def bars(counts: Mapping[str, int]) -> str:
    """Horizontal bars by name, longest first, as inline SVG."""
    items = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    top = max((count for _, count in items), default=1) or 1
    rows = []
    for line, (name, count) in enumerate(items):
        y = 20 * line
        rows.append(
            f'<text x="0" y="{y + 14}">{html.escape(name)}</text>'
            f'<rect x="220" y="{y + 3}" width="{360 * count / top:.1f}" height="14" fill="#4a7bd0"/>'
            f'<text x="{226 + 360 * count / top:.1f}" y="{y + 14}">{count:,}</text>'
        )
    size = f'width="680" height="{20 * len(items) + 4}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-size="13">{"".join(rows)}</svg>'
