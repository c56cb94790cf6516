"""Run the contract tests of one algorithm, and its own tests: `make try NAME=my_objective`.

A contract test says by `contract` which registry it covers, and each of its cases which algorithm
it is about. Without a name, the tests of what changed run (`tests/touched.py`). `make fast` runs
every contract test once.
"""

import difflib
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.contracts import algorithm_of
from tests.registries import ROOT, algorithms, registries
from tests.touched import RANKS, importers, is_test, own_tests, try_touched


class Algorithm(NamedTuple):
    """An algorithm of a registry."""

    package: str
    name: str
    path: Path
    """of its file"""

    @property
    def own_tests(self) -> Path:
        """The file of its own tests."""
        file = self.path.with_stem(self.name.replace("-", "_"))
        return ROOT / own_tests(file.relative_to(ROOT))


def find_algorithms(name: str) -> list[Algorithm]:
    """Return each algorithm with this name; `heads/masked_lm` is the one in that folder.

    Raises:
        LookupError: no registry has the name; the message has the nearest names.
    """
    folder, _, stem = name.removesuffix(".py").rpartition("/")
    known = [
        Algorithm(package, *one) for package in registries() for one in algorithms(package).items()
    ]
    found = [
        one
        for one in known
        if one.name == stem and f"/{one.path.parent}".endswith(f"/{folder}".rstrip("/"))
    ]
    if not found:
        listed = sorted({one.name for one in known})
        near = difflib.get_close_matches(stem, listed, n=3) or listed
        raise LookupError(
            f"NAME={name}: no registry has an algorithm of this name; nearest names: "
            f"{', '.join(near)}. Registry folders: "
            f"{', '.join(str(path.relative_to(ROOT)) for path in registries().values())}"
        )

    return sorted(found)


def contract_files() -> list[Path]:
    """Return the files with contract tests: those that import what declares one."""
    return [ROOT / name for name in importers(ROOT)["tests.contracts"] if is_test(name)]


class Selection:
    """A pytest plugin that keeps the tests of some algorithms, and counts them."""

    def __init__(self, found: Sequence[Algorithm]) -> None:
        self.algorithms = {(one.package, one.name) for one in found}
        self.own = {one.own_tests for one in found}
        self.ran: Counter[Path] = Counter()
        self.cases: Counter[tuple[str, str] | None] = Counter()
        self.with_ranks = 0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests of the algorithms' own files, and the cases of contract tests that are
        about them."""
        kept = [
            item for item in items if item.path in self.own or algorithm_of(item) in self.algorithms
        ]
        items[:] = [item for item in kept if "two_ranks" not in getattr(item, "fixturenames", ())]
        self.with_ranks = len(kept) - len(items)
        self.cases = Counter(map(algorithm_of, items))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test for its file."""
        if report.when == "call":
            self.ran[Path(report.location[0])] += 1


class EveryContractOnce:
    """A pytest plugin that keeps one case of each contract test: of the algorithm with the fewest
    tests so far."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Choose the cases; those that start training processes are left to `make test`."""
        cases: dict[tuple[str, ...], list[pytest.Item]] = {}
        for item in items:
            if algorithm_of(item) is not None and not starts_ranks(item):
                cases.setdefault(contract_of(item), []).append(item)

        tests_of: Counter[tuple[str, str] | None] = Counter()
        chosen = []

        for same_test in cases.values():
            fewest = min(same_test, key=lambda item: tests_of[algorithm_of(item)])
            tests_of[algorithm_of(fewest)] += 1
            chosen.append(fewest)

        items[:] = chosen


def contract_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the test of a case, and the check of a contract that it runs."""
    check = item.callspec.params.get("check", "")  # type: ignore[attr-defined]
    return item.nodeid.partition("[")[0], getattr(check, "__name__", "")


def starts_ranks(item: pytest.Item) -> bool:
    """Return whether a test starts training processes, which takes longer than all other tests of
    an algorithm."""
    return bool(RANKS & set(getattr(item, "fixturenames", ())))


def run_fast(arguments: Sequence[str]) -> int:
    """Run every contract test once; return pytest's exit status."""
    files = [str(path) for path in contract_files()]
    return int(pytest.main([*files, *arguments], plugins=[EveryContractOnce()]))


def main(arguments: Sequence[str]) -> int:
    """Run the tests of the algorithms named on the command line, or of what changed.

    Return pytest's exit status.
    """
    begun = time.perf_counter()
    if arguments[:1] == ["--fast"]:
        return run_fast(arguments[1:])
    if not arguments or arguments[0].startswith("-"):
        return try_touched(list(arguments))
    names = [*takewhile(lambda word: not word.startswith("-"), arguments)]

    try:
        found = [one for name in names for one in find_algorithms(name)]
    except LookupError as error:
        print(error, file=sys.stderr)
        return 64

    selection = Selection(found)
    files = sorted({*contract_files(), *selection.own})
    options = arguments[len(names) :]
    status = pytest.main(
        [
            *(str(path) for path in files if path.exists()),
            *options,
        ],
        plugins=[selection],
    )
    for file, count in sorted(selection.ran.items()):
        print(f"{count:5} in {file}")
    for package, name in sorted(selection.algorithms):
        print(f"{selection.cases[package, name]:5} of contracts of {name}")
    if selection.with_ranks:
        print(
            f"{selection.with_ranks:5} more start several training processes; `make test` runs them"
        )

    names = ", ".join(str(one.path.relative_to(ROOT)) for one in found)
    print(f"{names}: {selection.ran.total()} tests in {time.perf_counter() - begun:.1f} s")
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
