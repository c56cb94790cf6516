"""Reports of stages and runs: JSON for programs, one self-contained HTML page for people."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.execution.unit_record import Counts, UnitRecord
from pipeline.files import publish, publish_json
from pipeline.html_page import bars, page, table

__all__ = ["write_run_report", "write_stage_report"]


def _flat(counts: Mapping[str, object]) -> list[tuple[str, int]]:
    return [(name, value) for name, value in sorted(counts.items()) if isinstance(value, int)]


def write_stage_report(folder: Path, name: str, counts: Counts, found: Sequence[UnitRecord], seconds: float) -> None:
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
