"""Find the tests that could know a file: its own, those that import it, those of what imports it, and its folder."""

import ast
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path


def module_of(name: str) -> str:
    """Return the module of a file, as imports spell it."""
    dotted = ".".join(Path(name).with_suffix("").parts).removesuffix(".__init__")
    return dotted if dotted.split(".")[0] in ("tests", "benchmarks", "docs", "clozeline") else f"clozeline.{dotted}"


def imports_of(source: str) -> Iterator[str]:
    """Yield each module, or name in a module, that a source imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def importers(tree: Path) -> dict[str, list[str]]:
    """Return for each module the tracked and new Python files of a tree that import it."""
    found = defaultdict(list)
    for name in _git(tree, "ls-files", "--cached", "--others", "--exclude-standard", "*.py"):
        if (tree / name).is_file():
            for module in sorted(set(imports_of((tree / name).read_text(encoding="utf-8")))):
                found[module].append(name)
    return found


def is_test(name: str) -> bool:
    """Return whether pytest collects a file."""
    return name.startswith("tests/") and Path(name).name.startswith("test_") and name.endswith(".py")


def own_tests(path: Path) -> Path:
    """Return where the tests of a product file are; both relative to the root."""
    return Path("tests", path.parent, f"test_{path.stem.removeprefix('_')}.py")


def find_tests(tree: Path, name: str) -> list[list[str]]:
    """Return groups of test files that could know a product file: its own, those that import it, its folder's."""
    own = str(own_tests(Path(name)))
    first = [own] if (tree / own).is_file() else []
    using = importers(tree)[module_of(name)]
    second = [file for file in using if is_test(file) and file != own]
    helpers = [file for file in using if file.startswith("tests/") and not is_test(file)]
    second += [test for helper in helpers for test in importers(tree)[module_of(helper)] if is_test(test)]
    folder = [str(file.relative_to(tree)) for file in sorted((tree / own).parent.glob("test_*.py"))]
    groups = [first, list(dict.fromkeys(second)), [file for file in folder if file not in {own, *second}]]
    return [group for group in groups if group]


def _git(tree: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=tree, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()
