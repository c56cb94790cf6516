"""Benchmarks follow the code: whatever they import from the project is there."""

import ast
import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {"clozeline", "model", "pipeline", "tools", "train"}


@pytest.mark.parametrize("name", sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("benchmarks/**/*.py")))
def test_what_a_benchmark_imports_exists(name):
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in OURS:
            module = import_module(node.module)
            missing = [
                one.name for one in node.names if not (hasattr(module, one.name) or _is_module(module, one.name))
            ]
            assert not missing, f"line {node.lineno}: {node.module} has no {', '.join(missing)}"


def _is_module(package, name):
    """Return whether `from package import name` imports a module, which is no attribute before its first import."""
    return hasattr(package, "__path__") and find_spec(f"{package.__name__}.{name}") is not None


def test_a_benchmark_starts_as_documented():
    """From the root of a checkout, in an environment where only the package is installed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "benchmarks.loader", "--help"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--samples" in done.stdout
