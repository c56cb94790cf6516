"""Run the contract tests of one algorithm, and its own tests: `make try NAME=my_objective`.

A contract test is parametrized over the files of a registry folder. Only the cases of this algorithm run, and only the
test files that can have one are collected. Without a name, the tests of what changed run (`tests/touched.py`).
"""

import difflib
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.registries import ROOT, algorithms, registries
from tests.touched import RANKS, own_tests, try_touched

TESTS = ROOT / "tests"


def find_algorithms(name: str) -> list[tuple[str, Path]]:
    """Return (package, file) of each algorithm with this name; `heads/masked_lm` is the one in that folder.

    Raises:
        LookupError: no registry has the name; the message has the nearest names.
    """
    folder, _, stem = name.removesuffix(".py").rpartition("/")
    known = {(package, path) for package in registries() for path in algorithms(package)}
    found = [one for one in known if one[1].stem == stem and f"/{one[1].parent}".endswith(f"/{folder}".rstrip("/"))]
    if not found:
        stems = sorted({path.stem for _, path in known})
        near = difflib.get_close_matches(stem, stems, n=3) or stems
        raise LookupError(
            f"NAME={name}: no registry folder has a file {stem}.py; nearest names: {', '.join(near)}. "
            f"Registry folders: {', '.join(str(path.relative_to(ROOT)) for path in registries().values())}"
        )
    return sorted(found)


def contract_files(package: str, name: str) -> list[Path]:
    """Return the test files that may have a case of an algorithm.

    They list its registry, themselves or by a constant that tests share (`HEADS = names("clozeline.model.heads")`), or
    they are in the registry's folder and mention the name. Tests of training are left to `make test`, except those
    of the trainer's own registries.
    """
    folder = registries()[package].relative_to(ROOT)
    parts = sorted({folder.parts[0], "tools"})
    sources = {path: path.read_text(encoding="utf-8") for part in parts for path in (TESTS / part).rglob("*.py")}
    tests = {path for path in sources if path.name.startswith("test_")}
    listed = rf"""names\(["']{re.escape(package)}["']\)"""
    product = "\n".join(path.read_text(encoding="utf-8") for path in registries()[package].glob("_*.py"))
    listing = re.findall(rf"^def (\w+)\(\)(?:(?!\ndef ).)*?{listed}", product, re.MULTILINE | re.DOTALL)
    ways = [listed, *(rf"\b{function}\(\)" for function in listing)]
    nearby = [rf"""["']{re.escape(name)}["'-]"""]  # in the registry's own folder
    for path, text in sources.items():
        if path not in tests and re.search(listed, text):
            module = re.escape(".".join(path.relative_to(ROOT).with_suffix("").parts))
            constants = "|".join(re.findall(rf"^([A-Z]+) = {listed}", text, re.MULTILINE))
            nearby.append(rf"from {module} import")
            ways += [rf"from {module} import .*\b({constants})\b"] if constants else []
    anywhere, inside = re.compile("|".join(ways)), re.compile("|".join([*ways, *nearby]))
    own = {ROOT / own_tests(path.relative_to(ROOT)) for path in algorithms(package)}
    found = [
        path
        for path, text in sources.items()
        if path in tests and (inside if path.parent == TESTS / folder else anywhere).search(text)
    ]
    return [TESTS / "test_registries.py", *sorted({*found} - own)]


class Selection:
    """A pytest plugin that keeps the tests of some algorithms, and times them."""

    def __init__(self, files: Sequence[Path]) -> None:
        # `model_type` of a checkpoint has hyphens where its file has underscores.
        self.words = {word for path in files for word in (path.stem, path.stem.replace("_", "-"))}
        self.own = {ROOT / own_tests(path.relative_to(ROOT)) for path in files}
        self.ran: Counter[Path] = Counter()
        self.with_ranks = 0

    def is_about(self, value: Any) -> bool:
        """Return whether a parameter of a test names one of the algorithms, or holds such a value."""
        if isinstance(value, Path):
            return value.stem in self.words
        if isinstance(value, (list, tuple, dict)):
            return any(map(self.is_about, value.values() if isinstance(value, dict) else value))
        return isinstance(value, str) and value in self.words

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests of the algorithms' own files, and the cases of contract tests that are about them."""
        kept = []
        for item in items:
            case = getattr(item, "callspec", None)
            if item.path in self.own or (case and any(map(self.is_about, case.params.values()))):
                if RANKS & set(getattr(item, "fixturenames", ())):
                    self.with_ranks += 1
                else:
                    kept.append(item)
        items[:] = kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test for its file."""
        if report.when == "call":
            self.ran[Path(report.location[0])] += 1


def main(arguments: Sequence[str]) -> int:
    """Run the tests of the algorithm named on the command line, or of what changed; return pytest's exit status."""
    begun = time.perf_counter()
    if not arguments or arguments[0].startswith("-"):
        return try_touched(list(arguments))
    try:
        found = find_algorithms(arguments[0])
    except LookupError as error:
        print(error, file=sys.stderr)
        return 64
    selection = Selection([path for _, path in found])
    files = sorted({path for package, one in found for path in contract_files(package, one.stem)} | selection.own)
    status = pytest.main([*(str(path) for path in files if path.exists()), *arguments[1:]], plugins=[selection])
    for file, count in sorted(selection.ran.items()):
        print(f"{count:5} in {file}")
    for path in sorted(selection.own):
        if not path.exists():
            print(f"      its own tests are missing: `make test` expects {path.relative_to(ROOT)}")
    if selection.with_ranks:
        print(f"{selection.with_ranks:5} more start training processes; `make test` runs them")
    names = ", ".join(str(path.relative_to(ROOT)) for _, path in found)
    print(f"{names}: {selection.ran.total()} tests in {time.perf_counter() - begun:.1f} s")
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
