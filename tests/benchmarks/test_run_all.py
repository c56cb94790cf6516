"""That every script of `benchmarks/` still runs."""

import importlib
import subprocess
import sys

from benchmarks.harness import ROOT

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(ROOT.glob("benchmarks/*.py")), ids=lambda path: path.stem)
def test_each_script_ends_at_its_smallest_size(path, tmp_path):
    """The figures are its last output, also of one that misses its targets at this size."""
    if "__main__" not in path.read_text():
        pytest.skip("a part of others")
    module = f"benchmarks.{path.stem}"
    smallest = importlib.import_module(module).SMALLEST
    figures = tmp_path / "figures.json"
    options = ["--help"] if smallest is None else [*smallest.split(), "--json", str(figures)]
    ended = subprocess.run(
        [sys.executable, "-m", module, *options], cwd=ROOT, text=True, capture_output=True
    )
    assert figures.exists() if smallest else ended.returncode == 0, ended.stderr
