"""Programs that pages show, run as a reader would: the notebook, and compression."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed import run_program

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
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


def cells(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["metadata"]["kernelspec"]["name"]) == (4, "python3")
    return notebook["cells"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path):
    found = cells(path)
    assert len({cell["id"] for cell in found}) == len(found)
    assert found[0]["cell_type"] == "markdown"
    for cell in found:
        assert all(line.endswith("\n") for line in cell["source"][:-1])
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)


def test_the_first_steps_run_and_show_what_they_speak_of(tmp_path):
    """With fewer steps than in class."""
    (path,) = NOTEBOOKS
    sources = ["".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "code"]
    short = [source.replace("STEPS = 60", "STEPS = 12") for source in sources]
    assert short != sources
    done = run_program(f"SOURCES = {short!r}\n{RUNNER}", tmp_path)
    assert done.codes == [0], done.errors
    shown = [("CorruptedText", 0)] * 3 + [("ShardSet", 0), ("View", 0), ("Batch", 0), ("RecordedRun", 1)]
    lines = [line for line in done.outputs[0].splitlines() if line.startswith(("shown ", "falls "))]
    assert lines == [*(f"shown {name} {charts} True" for name, charts in shown), "falls True"]


@pytest.mark.slow
def test_early_exit_and_token_pruning_trade_arithmetic_for_accuracy(tmp_path):
    page = (ROOT / "docs" / "compression.md").read_text(encoding="utf-8")
    section = page.partition("## Early exit and token pruning\n")[2].partition("\n## ")[0]
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    flops = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) FLOPs a row", done.stdout)]
    depths = [float(depth) for depth in re.findall(r"depth (\d\.\d\d)", done.stdout)]
    accuracies = [float(score) for score in re.findall(r": (0\.\d{3})", done.stdout)]
    assert depths[0] == 4 > depths[1] > depths[2] >= 1
    assert flops[0] > flops[1] > flops[2]
    assert all(pruned < flops[0] for pruned in flops[4:])
    assert (len(flops), len(accuracies)) == (6, 8), "what is learned prints tokens a layer"
    assert min(accuracies) > 0.8
