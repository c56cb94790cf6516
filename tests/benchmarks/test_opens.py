"""The arithmetic of opens that the documentation shows, from the formula of the shuffles."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from benchmarks.capacity import MEASURED, foresee
from benchmarks.corpus_size import opens
from clozeline.configuration.config import validate
from clozeline.pipeline.execution.plan import LEAST_BYTES, MOST_UNITS
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.tokenize.encode.stage import check_memory, worker_memory
from clozeline.terminal import size_text

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


def test_the_documented_job_on_slurm_has_the_memory_that_it_needs(tmp_path: Path) -> None:
    """A worker's memory for 100 TB, by the share of documents that the page assumes, and if all are kept."""
    (options,) = re.findall(r"executor.name=slurm .*executor.options='(.*?)'", _TABLE)
    executor = {"name": "slurm", "options": yaml.safe_load(options)}
    recipe = validate(Recipe, {"corpus": "c", "output": str(tmp_path), "executor": executor}, "test")
    (left,) = (row["left"] for row in foresee(MEASURED, 100, 0.19, 0.2, 0.5) if row["stage"] == "dedup")
    assert check_memory(recipe.executor, MOST_UNITS, left * 1e12) == ""
    most, kept = (worker_memory(MOST_UNITS, documents) for documents in (0.4 * 100e12, left * 1e12))
    assert f"that is {size_text(kept)} for the documents" in _TABLE
    assert f"and {size_text(most)} if none is" in _TABLE
    assert f"needs about {size_text(most)}" in check_memory(recipe.executor, MOST_UNITS, 40e12)
