"""The layout rules of the repository: small files, one idea a file, names that shadow nothing."""

from __future__ import annotations

import ast
import re
import statistics
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.registries import algorithms, registries

ROOT = Path(__file__).parents[1]
PACKAGES = ("clozeline", "pipeline", "model", "train", "tools")
LONGEST_FILE = 400
MEDIAN_FILE = 150
FORBIDDEN_WORDS = frozenset({"utils", "util", "common", "helpers", "helper", "misc", "manager"})


def files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def named(path: Path) -> bool:
    return not path.stem.startswith("__")


SOURCES = [path for path in files(*PACKAGES) if named(path)]
ENTRIES = [path for package in registries() for path in algorithms(package)]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_long_files() -> None:
    long = {
        relative(path): lines(path) for path in files(*PACKAGES, "tests", "benchmarks") if lines(path) > LONGEST_FILE
    }
    assert not long, f"over {LONGEST_FILE} lines, split them by idea: {long}"


def test_most_files_are_short() -> None:
    assert statistics.median(lines(path) for path in SOURCES) <= MEDIAN_FILE


def _importable_dependencies() -> set[str]:
    """Names that `import` finds for the distributions of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.split(r"[\s<>=!~\[;]", line)[0].lower() for line in project["dependencies"]}
    found = {
        module.lower()
        for module, distributions in packages_distributions().items()
        if wanted & {name.lower() for name in distributions}
    }
    return found | {name.replace("-", "_") for name in wanted}


def test_no_file_next_to_a_script_shadows_a_dependency_or_the_standard_library() -> None:
    """Python puts a script's own folder first on `sys.path`: `train/queue.py` would break the program."""
    taken = _importable_dependencies() | set(sys.stdlib_module_names)
    folders = [ROOT / "train", *(path for path in (ROOT / "tools").iterdir() if path.is_dir())]
    assert not [relative(path) for folder in folders for path in folder.iterdir() if path.stem in taken]


def test_names_say_what_is_inside() -> None:
    assert not [relative(path) for path in SOURCES if FORBIDDEN_WORDS & set(path.stem.lower().split("_"))]


def test_stages_are_verbs_with_a_command() -> None:
    from clozeline.pipeline import all_stages

    folders = {path.parent.relative_to(ROOT / "pipeline") for path in (ROOT / "pipeline").rglob("stage.py")}
    assert len(folders) == len(all_stages())


def _modules() -> dict[str, Path]:
    """Every file of the packages by its dotted name."""
    found = {}
    for path in files(*PACKAGES):
        parts = path.relative_to(ROOT).with_suffix("").parts
        package = () if parts[0] == "clozeline" else ("clozeline",)  # whose folders link to those of the parts
        found[".".join((*package, *(parts[:-1] if path.stem == "__init__" else parts)))] = path
    return found


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    """The syntax tree of each file of the packages."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in files(*PACKAGES)}


def _imports(path: Path, tree: ast.Module, modules: dict[str, Path]) -> set[str]:
    """Files that a file imports anywhere: inside functions and for type checkers too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            names = {f"{node.module}.{name.name}" for name in node.names}
            found |= {name if name in modules else str(node.module) for name in names}
    return found & modules.keys()


def test_no_circle_of_files(trees: dict[Path, ast.Module]) -> None:
    """Files that import nothing of the rest are taken away until none is left; what stays imports itself."""
    modules = _modules()
    graph = {name: _imports(path, trees[path], modules) - {name} for name, path in modules.items()}
    while leaves := {name for name, targets in graph.items() if not targets}:
        graph = {name: targets - leaves for name, targets in graph.items() if name not in leaves}
    while roots := graph.keys() - set().union(*graph.values()):
        graph = {name: targets for name, targets in graph.items() if name not in roots}
    assert not graph, f"files that import each other: {graph}"


def test_tests_mirror_the_source() -> None:
    """Each folder of tests mirrors a folder of the source, but for the grid of complete runs."""
    tests = files("tests")
    strangers = {
        relative(path.parent)
        for path in tests
        if path.parent not in (ROOT / "tests", ROOT / "tests" / "grid", ROOT / "tests" / "docs_generate")
        and not (ROOT / path.parent.relative_to(ROOT / "tests")).is_dir()
    }
    assert not strangers


NOT_VERBS = frozenset({"What", "Where", "Whether", "How", "Which", "Who", "Why", "The", "A", "An"})


QUESTION_WORDS = frozenset({"What", "Where", "Whether", "How", "Which", "Who", "Why"})


@pytest.mark.parametrize("package", PACKAGES)
def test_no_text_about_code_begins_with_a_question_word(trees: dict[Path, ast.Module], package: str) -> None:
    """Text of modules, types, properties and fields: it says what the thing is."""
    begun = []
    for path in files(package):
        for node in ast.walk(trees[path]):
            for text in getattr(node, "body", []) if isinstance(getattr(node, "body", []), list) else []:
                match text:
                    case ast.Expr(value=ast.Constant(value=str(words))) if words.split()[0].title() in QUESTION_WORDS:
                        begun.append(f"{relative(path)}:{text.lineno} {words[:40]}")
    assert not begun


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_of_functions_begin_with_a_verb(trees: dict[Path, ast.Module], package: str) -> None:
    """A property is named like an attribute, so its docstring may be a noun phrase."""
    found = []
    for path in files(package):
        for node in ast.walk(trees[path]):
            if isinstance(node, ast.FunctionDef) and not any("property" in ast.unparse(d) for d in node.decorator_list):
                words = (ast.get_docstring(node) or "").split()
                found += [f"{relative(path)}:{node.lineno} {words[0]}" for _ in words[:1] if words[0] in NOT_VERBS]
    assert not found
