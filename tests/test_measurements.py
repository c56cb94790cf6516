"""Measured figures of the documentation: each table of them says when and by which command they were taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FEWEST = 4
"""Cells with decimals from which a table counts as measured; versions and example values are fewer."""
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
COMMAND = re.compile(r"(?:`|^)(?:make|python|pytest|deepspeed|clozeline) [^`\n]+", re.MULTILINE)


def sections(text: str) -> Iterator[tuple[str, str]]:
    """Title and text of each part below a heading of the second or third level."""
    for part in re.split(r"^(?=###? )", text, flags=re.MULTILINE):
        yield part.partition("\n")[0], part


def is_measured(table: str) -> bool:
    """Return whether a table has figures with decimals, other than code, numbers of papers and factors of a symbol."""
    cells = [cell for row in table.splitlines()[2:] for cell in row.strip("|").split("|")]
    plain = [re.sub(r"`[^`]*`|arXiv \S+|\(\d{4}\.\d+\)|[\d.]+ P\b", "", cell) for cell in cells]
    return sum(bool(re.search(r"(?<![\w.])\d+\.\d+(?![\w.])", cell)) for cell in plain) >= FEWEST


def lacks(part: str) -> list[str]:
    """Return what a part with a table of measured figures lacks of date and command."""
    tables = re.findall(r"(?:^\|.*\n)+", part, flags=re.MULTILINE)
    if not any(is_measured(table) for table in tables):
        return []
    return [name for name, pattern in (("date", DATE), ("command", COMMAND)) if not pattern.search(part)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_of_figures_have_a_date_and_a_command(page: Path) -> None:
    found = {title: lacks(part) for title, part in sections(page.read_text(encoding="utf-8"))}
    assert {title: missing for title, missing in found.items() if missing} == {}


def test_a_table_without_its_source_is_found() -> None:
    table = "## Speed\n\n| a | b |\n|---|---|\n| 1.5 ms | 2.5 |\n| 3.5 | 0.4 |\n"
    assert lacks(table) == ["date", "command"]
    assert lacks(table + "\n2026-01-31\n") == ["command"]
    assert lacks(table + "\n`make race`, 2026-01-31\n") == []
    assert lacks(table.replace(".5", " (arXiv 1910.10683)")) == []
