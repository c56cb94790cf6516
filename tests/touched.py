"""Find the tests that could know a file: its own, those that import it, those of what imports it,
and its folder.

`make try` without a name checks the files of the uncommitted change, in seconds, and then runs the
tests that it touches, the nearest first, for at most a minute of CPU time.
"""

import ast
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.registries import ROOT

SECONDS: Final = 50
"""After this CPU time no further test begins: with the last one and the import of the libraries it
stays under a minute."""
FILES: Final = 40
"""No more files are collected: what most tests import touches hundreds."""
USERS: Final = 12
"""Tests of so many files that import one; what most files import is known by the tests that import
it."""
RANKS: Final = {"one_rank", "two_ranks"}
"""Fixtures of tests that start training processes."""
WITH_RANKS: Final = 2
"""Tests that start training processes, for a change of the trainer; elsewhere none is run."""
_NO_PRODUCT: Final = ("tests/", "docs/", "benchmarks/")
TRIED: Final = "CLOZELINE_TRIED"
"""Environment variable with the files that rules of the source look at; without it all."""


def module_of(name: str) -> str:
    """Return the module of a file, as imports spell it."""
    dotted = ".".join(Path(name).with_suffix("").parts).removesuffix(".__init__")
    return (
        dotted
        if dotted.split(".")[0] in ("tests", "benchmarks", "docs", "clozeline")
        else f"clozeline.{dotted}"
    )


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

    listed = read_git(tree, "ls-files", "--cached", "--others", "--exclude-standard", "*.py")
    for name in listed.splitlines():
        if (tree / name).is_file():
            for module in sorted(set(imports_of((tree / name).read_text(encoding="utf-8")))):
                found[module].append(name)

    return found


def is_test(name: str) -> bool:
    """Return whether pytest collects a file."""
    return (
        name.startswith("tests/") and Path(name).name.startswith("test_") and name.endswith(".py")
    )


def own_tests(path: Path) -> Path:
    """Return where the tests of a product file are; both relative to the root."""
    return Path("tests", path.parent, f"test_{path.stem.removeprefix('_')}.py")


def find_tests(tree: Path, name: str) -> list[list[str]]:
    """Return groups of test files that could know a product file: its own, those that import it,
    those in its folder or of its registry, and those of the product files that import it, the nearest first."""
    own = str(own_tests(Path(name)))
    first = [own] if (tree / own).is_file() else []
    using = importers(tree)[module_of(name)]
    second = [file for file in using if is_test(file) and file != own]
    helpers = [file for file in using if file.startswith("tests/") and not is_test(file)]
    second += [
        test for helper in helpers for test in importers(tree)[module_of(helper)] if is_test(test)
    ]
    folder = [str(file.relative_to(tree)) for file in sorted((tree / own).parent.glob("test_*.py"))]
    place = Path(name).parent.name
    folder += [
        test for test in importers(tree)["tests.contracts"] if Path(test).parent.name == place
    ]
    users = [str(own_tests(Path(file))) for file in using if not file.startswith("tests/")]
    users.sort(key=lambda file: -len(os.path.commonpath([file, own])))
    groups: list[list[str]] = []

    for group in (
        first,
        second,
        folder,
        [file for file in users if (tree / file).is_file()][:USERS],
    ):
        known = {file for earlier in groups for file in earlier}
        groups.append([file for file in dict.fromkeys(group) if file not in known])

    return groups


def find_touched(tree: Path, changed: Iterable[str]) -> list[str]:
    """Return the test files that changed files touch, the nearest first."""
    ranked: dict[str, int] = {}

    def add(rank: int, names: Iterable[str]) -> None:
        for name in names:
            if is_test(name) and (tree / name).is_file():
                ranked[name] = min(rank, ranked.get(name, rank))

    for name in changed:
        if name.startswith("tests/") and name.endswith(".py"):
            add(0, [name, *importers(tree)[module_of(name)]])
        elif name.endswith(".py"):
            for rank, group in enumerate(find_tests(tree, name)):
                add(rank, group)
        else:  # a recipe, a page, a table: the tests that name it, or its folder
            words = [name, str(Path(name).parent)] if "/" in name else [name]
            for rank, word in enumerate(words):
                add(rank, read_git(tree, "grep", "-lF", word, "--", "tests").splitlines())

    return sorted(ranked, key=lambda test: (ranked[test], test))


def uncommitted(tree: Path) -> list[str]:
    """Return the files that differ from the last commit, and the new ones."""
    changed = read_git(tree, "diff", "--name-only", "HEAD")
    new = read_git(tree, "ls-files", "--others", "--exclude-standard")
    return [*changed.splitlines(), *new.splitlines()]


def read_git(tree: Path, *arguments: str) -> str:
    """Return what a command of git prints; nothing where it fails."""
    done = subprocess.run(
        ["git", *arguments], cwd=tree, capture_output=True, text=True, check=False
    )
    return done.stdout


class Deadline:
    """A pytest plugin that begins no test after a CPU time, and leaves out most tests of training
    processes: those that it runs come first."""

    def __init__(self, seconds: float, with_ranks: int) -> None:
        self.end = cpu_seconds() + seconds
        self.with_ranks = with_ranks
        self.left: list[pytest.Item] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what starts ranks."""
        ranks = [item for item in items if RANKS & set(getattr(item, "fixturenames", ()))]
        self.left = ranks[self.with_ranks :]
        others = [item for item in items if item not in set(ranks)]
        items[:] = [*ranks[: self.with_ranks], *others]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Pass over a test that would begin too late."""
        if cpu_seconds() < self.end:
            return None
        self.left.append(item)
        return True


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that ended."""
    return sum(os.times()[:4])


def check_changed(changed: Iterable[str]) -> bool:
    """Return whether changed files keep the rules that are checked in seconds, and print others."""
    files = [name for name in changed if name.endswith(".py") and (ROOT / name).is_file()]
    product = [name for name in files if "/" in name and not name.startswith(_NO_PRODUCT)]
    python = (sys.executable, "-m")
    checks = [("ruff", "check", *files), ("ruff", "format", "--check", *files)] if files else []
    checks += [("lint-imports",), (*python, "tests.history")]
    if product:
        checks.append((*python, "pytest", "-n", "0", "-k", "each_file", "tests/test_source.py"))
    environment = {**os.environ, TRIED: " ".join(product)}
    for check in checks:
        done = subprocess.run(
            check, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"{' '.join(check)}\n{done.stdout}{done.stderr}", file=sys.stderr)
            return False
    return True


def try_touched(arguments: list[str]) -> int:
    """Run the tests that the uncommitted change touches; return pytest's exit status."""
    if not (changed := uncommitted(ROOT)):
        print(
            "nothing differs from the last commit; of one algorithm: make try NAME=masked_lm",
            file=sys.stderr,
        )
        return 64
    if not check_changed(changed):
        return 1

    files = find_touched(ROOT, changed)
    near = files[:FILES]
    print(
        f"{len(changed)} changed files touch {len(files)} test files; {len(near)} are run",
        flush=True,
    )
    if not near:
        return 0
    of_trainer = any("train" in Path(name).parts[:2] for name in changed)
    deadline = Deadline(SECONDS, WITH_RANKS if of_trainer else 0)
    status = pytest.main([*near, *arguments], plugins=[deadline])

    if deadline.left:
        print(
            f"{len(deadline.left)} tests of them are left out: they start ranks, or would begin "
            f"after {SECONDS} CPU seconds"
        )

    if deadline.left or near != files:
        print("`make test` runs all")
    return int(status)
