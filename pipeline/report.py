"""Reports: JSON for programs, one self-contained HTML page for people. Every string is escaped."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pipeline.stage import Counts, Record, publish, publish_json

__all__ = ["bars", "page", "read_json", "table", "write_run_report", "write_stage_report"]

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


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file, or None where there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def _flat(counts: Counts) -> list[tuple[str, int]]:
    return [(name, value) for name, value in sorted(counts.items()) if isinstance(value, int)]


def write_stage_report(folder: Path, name: str, counts: Counts, found: Sequence[Record], seconds: float) -> None:
    """Write `report.json` and `report.html` of a stage from its records."""
    size = sum(file["bytes"] for record in found for file in record.outputs.values())
    publish_json(
        folder / "report.json",
        {
            "format": 1,
            "stage": name,
            "counts": counts,
            "units": len(found),
            "bytes": size,
            "seconds": round(seconds, 3),
        },
    )
    parts = [f"<p>{len(found)} units, {size:,} bytes, {seconds:.1f} s</p>", table(["count", ""], _flat(counts))]
    for group, values in sorted(counts.items()):
        if isinstance(values, dict) and values:
            parts += [f"<h2>{html.escape(group)}</h2>", bars(dict(_flat(values)))]
    with publish(folder / "report.html") as temporary:
        temporary.write_text(page(f"Clozeline · {name}", parts), encoding="utf-8")


def write_run_report(
    folder: Path, header: Sequence[str], rows: Sequence[Sequence[str]], data: Mapping[str, Any]
) -> None:
    """Write the whole run's `report.json` and `report.html`."""
    publish_json(folder / "report.json", data)
    links = "".join(f'<li><a href="{name}/report.html">{name}</a></li>' for name in data["stages"])
    with publish(folder / "report.html") as temporary:
        text = page("Clozeline · pipeline run", [table(header, rows), f"<h2>Stages</h2><ul>{links}</ul>"])
        temporary.write_text(text, encoding="utf-8")
