"""The arithmetic of opens that the documentation shows, from the formula of the exchanges."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.small_files import cut, opens
from clozeline.pipeline.execution.plan import LEAST_BYTES, MOST_UNITS

_TABLE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
_WORDS = {"thousand": 1e3, "million": 1e6}


def _numbers(cell: str) -> float:
    number, *word = cell.split()
    return float(number.replace(",", "")) * (_WORDS[word[0]] if word else 1)


def test_the_documented_opens_are_those_of_the_formula() -> None:
    rows = re.findall(
        r"^\| (\d+) TB \| (\d+) (MiB|GiB).*? \| ([\d,]+) \| (.+?) \| (.+?) \| (.+?) \|$", _TABLE, re.MULTILINE
    )
    assert len(rows) == 4
    for terabytes, size, unit, units, *cells in rows:
        unit_bytes = int(size) << {"MiB": 20, "GiB": 30}[unit]
        assert _numbers(units) == -(-int(terabytes) * 10**12 // unit_bytes)
        for cell, count in zip(cells, opens(int(terabytes), unit_bytes).values(), strict=True):
            assert abs(count / _numbers(cell) - 1) < 0.05, (terabytes, cell, count)


def test_the_first_rows_are_of_the_default_sizes() -> None:
    rows = re.findall(r"^\| (\d+) TB \| (\d+) MiB, default", _TABLE, re.MULTILINE)
    assert len(rows) == 3
    for terabytes, size in rows:
        assert int(size) << 20 >= max(LEAST_BYTES, int(terabytes) * 10**12 // MOST_UNITS) > (int(size) - 1) << 20


def test_every_cut_holds_the_same_text() -> None:
    """The pieces are unlike, so that dedup leaves all of them, and lose no character."""
    text = "".join(chr(97 + i % 26) for i in range(1000))
    pieces = cut(text, 7)
    assert "".join(piece.rsplit(" ", 1)[0] for piece in pieces) == text
    assert len(set(pieces)) == 7
