"""The notebooks of docs/notebooks run from top to bottom, and are stored without outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.distributed import run_program

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))
RUNNER = '''
import ast

def run_cell(source, names):
    """Run a cell as a notebook does; print the type and HTML length of the value of its last expression."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    value = None if last is None else eval(compile(last, "cell", "eval"), names)
    if value is not None:
        html = value._repr_html_()
        whole = len(html) > 500 and html.startswith("<div class=clozeline>")
        print("shown", type(value).__name__, html.count("<svg"), whole)

names = {"__name__": "__main__"}
for source in SOURCES:
    run_cell(source, names)
losses = [record["loss"] for record in names["losses"]]
print("falls", losses[-1] < losses[0] - 0.3)
'''


def cells(path: Path) -> list[dict[str, Any]]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["metadata"]["kernelspec"]["name"]) == (4, "python3")
    found: list[dict[str, Any]] = notebook["cells"]
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Path) -> None:
    found = cells(path)
    assert len({cell["id"] for cell in found}) == len(found)
    assert found[0]["cell_type"] == "markdown"
    for cell in found:
        assert all(line.endswith("\n") for line in cell["source"][:-1])
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)


def test_the_first_steps_run_and_show_what_they_speak_of(tmp_path: Path) -> None:
    """With fewer steps than in class."""
    (path,) = NOTEBOOKS
    sources = ["".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "code"]
    short = [source.replace("STEPS = 60", "STEPS = 12") for source in sources]
    assert short != sources
    done = run_program(f"SOURCES = {short!r}\n{RUNNER}", tmp_path)
    assert done.codes == [0], done.errors
    lines = [line for line in done.outputs[0].splitlines() if line.startswith(("shown ", "falls "))]
    assert lines == [
        *["shown CorruptedText 0 True"] * 3,
        "shown ShardSet 0 True",
        "shown View 0 True",
        "shown Batch 0 True",
        "shown RecordedRun 1 True",
        "falls True",
    ]
