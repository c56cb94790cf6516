"""`make try NAME=...` runs the contract tests of one algorithm, of every registry."""

import subprocess
import sys

import pytest

from tests.contracts import algorithm_of
from tests.registries import ROOT, algorithms, registries
from tests.touched import find_touched
from tests.try_one import (
    EveryContractOnce,
    Selection,
    contract_files,
    contract_of,
    find_algorithms,
    main,
)


@pytest.mark.parametrize("name", ["maskd_lm", "filters/masked_lm"])
def test_a_wrong_name_gives_the_nearest_ones(name, capsys):
    assert main([name]) == 64
    assert "masked_lm" in capsys.readouterr().err.partition("nearest names: ")[2].partition(".")[0]


class Collected:
    """A plugin that keeps what is collected, and runs nothing."""

    def pytest_collection_modifyitems(self, items):
        self.items = [*items]
        items.clear()


@pytest.fixture(scope="module")
def items():
    """All cases of contract tests, collected in this process a second time."""
    collected = Collected()
    files = [str(path) for path in contract_files()]
    pytest.main(
        ["--collect-only", "-m", "", "-n", "0", "-p", "no:cacheprovider", *files],
        plugins=[collected],
    )
    return collected.items


def test_every_algorithm_has_a_contract(items):
    covered = {algorithm_of(item) for item in items}
    # what only extensions fill is tested there
    filled = [package for package, folder in registries().items() if any(folder.glob("[!_]*.py"))]
    known = {(package, name) for package in filled for name in algorithms(package)}
    assert known - covered == set(), "declare a test of its registry by `contract`"


def test_one_algorithm_has_its_own_cases_alone(items):
    kept = [*items]
    (one,) = find_algorithms("heads/masked_lm")
    Selection([one]).pytest_collection_modifyitems(kept)
    assert {algorithm_of(item) for item in kept} == {("clozeline.model.heads", "masked_lm")}


def test_a_head_of_an_extension_is_tried_by_the_contract_of_heads():
    packages = {one.package for one in find_algorithms("tasks/heads/classification")}
    assert packages == {"clozeline.model.heads", "clozeline.extensions.tasks.task_heads"}
    touched = find_touched(ROOT, ["extensions/tasks/heads/classification.py"])
    assert "tests/model/heads/test_head.py" in touched


def test_every_contract_runs_once_with_as_many_algorithms_as_there_are_contracts(items):
    kept = [*items]
    EveryContractOnce().pytest_collection_modifyitems(kept)
    contracts = [contract_of(item) for item in kept]
    assert len(contracts) == len(set(contracts))
    assert len({algorithm_of(item) for item in kept}) > 50


@pytest.mark.slow
def test_what_ran_is_said():
    """The tests of a sentence splitter are the cheapest ones."""
    command = [sys.executable, "-m", "tests.try_one", "sentences/lines", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "in tests/pipeline/text/sentences/test_splitter.py" in done.stdout
    assert "in tests/pipeline/text/sentences/test_lines.py" in done.stdout
    assert "test_regex.py" not in done.stdout
    assert "pipeline/text/sentences/lines.py: " in done.stdout.splitlines()[-1]
