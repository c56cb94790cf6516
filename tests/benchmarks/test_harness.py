"""What benchmarks import from the project."""

import ast
from importlib import import_module
from importlib.util import find_spec

from benchmarks.harness import ROOT


def test_whatever_benchmarks_import_from_the_project_is_there():
    for path in sorted(ROOT.glob("benchmarks/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in (
                "clozeline",
                "benchmarks",
            ):
                module = import_module(node.module)
                for one in node.names:
                    place = f"{path}:{node.lineno} {node.module} has no {one.name}"
                    assert hasattr(module, one.name) or find_spec(f"{node.module}.{one.name}"), (
                        place
                    )
