"""Benchmarks follow the code: whatever they import from the project is there."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {"clozeline", "model", "pipeline", "tools", "train"}


@pytest.mark.parametrize("name", sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("benchmarks/**/*.py")))
def test_what_a_benchmark_imports_exists(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in OURS:
            module = import_module(node.module)
            missing = [one.name for one in node.names if not hasattr(module, one.name)]
            assert not missing, f"line {node.lineno}: {node.module} has no {', '.join(missing)}"
