"""Every file of a run, of an export and of an import, damaged in every way: the same result, or the file and a way out.

Never a traceback, never another result without a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.seeding import keyed_hash
from tests.clozeline.damage import KINDS, Damage, damaged, damages, fault
from tests.clozeline.run_bench import RunBench

NAMES = tuple(RunBench(Path()).commands())
FOREIGN = "exported"
"""Folder in a form of transformers, which holds no hashes: a changed digit is another model, not a damaged one."""
VALUES = ("flip", "digit")
BRIEF = 9
"""Damages a command in `make test`."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> RunBench:
    return RunBench.made(tmp_path_factory.mktemp("runs"))


def chosen(bench: RunBench, name: str) -> Iterator[Damage]:
    """Yield a few damages of a command's files: every kind is met by some command."""
    folder, _ = bench.commands()[name]
    files, kinds = bench.files(folder), list(KINDS)
    for number in range(BRIEF):
        draw = keyed_hash(name, number)
        yield Damage(kinds[(draw >> 8) % len(kinds)], files[draw % len(files)], draw >> 16)


def every(bench: RunBench, name: str) -> Iterator[Damage]:
    folder, _ = bench.commands()[name]
    for path in bench.files(folder):
        yield from damages(path, f"{name} {path.relative_to(bench.folder)}", flips=8, digits=12)


def faults(bench: RunBench, name: str, chosen: Iterator[Damage]) -> tuple[list[str], Counter[str]]:
    """Return what a command does with damaged files that it must not, and the number of damages of each kind."""
    folder, command = bench.commands()[name]
    answer, whole = bench.ask(command)
    assert answer.code == 0, answer
    found, kinds = [], Counter[str]()
    for damage in chosen:
        if folder == FOREIGN and damage.kind in VALUES and damage.path.suffix != ".safetensors":
            continue
        kinds[damage.kind] += 1
        with damaged(damage):
            answer, result = bench.ask(command)
        if problem := fault(answer, result, whole, damage.path):
            found.append(f"{name}: {damage}: {problem}")
    return found, kinds


@pytest.mark.parametrize("name", NAMES)
def test_some_damage_is_never_silent(bench: RunBench, name: str) -> None:
    found, _ = faults(bench, name, chosen(bench, name))
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_damage_is_silent(bench: RunBench, name: str) -> None:
    found, kinds = faults(bench, name, every(bench, name))
    print(f"{name}: {sum(kinds.values())} damages, {len(found)} faults")
    assert set(kinds) == set(KINDS)
    assert not found, "\n".join(found)


def test_every_kind_is_met(bench: RunBench) -> None:
    assert {damage.kind for name in NAMES for damage in chosen(bench, name)} == set(KINDS)
