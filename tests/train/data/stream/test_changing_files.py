"""Shards that change under a running stream: its rows are the right ones, or filler, or it ends with a named error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from clozeline.pipeline.shards import DamagedBlock, ShardSet
from tests.shard_sets import toy_set
from tests.train.data.stream.streams import open_stream as open_toy
from tests.train.data.stream.streams import rows_of

open_stream = partial(open_toy, global_batch=8, micro_batch=8)
SIZES = [24, 24, 24]
STEPS = 27
"""Three passes over the set."""


def _truncate(length: float) -> Callable[[Path, Path], None]:
    return lambda path, other: os.truncate(path, int(path.stat().st_size * length))


def _swap(path: Path, other: Path) -> None:
    between = path.with_suffix(".between")
    path.rename(between)
    other.rename(path)
    between.rename(other)


def _replace(path: Path, other: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path, other: Path) -> None:
    path.unlink()
    os.mkfifo(path)


CHANGES: dict[str, Callable[[Path, Path], None]] = {
    "empty": _truncate(0),
    "half": _truncate(0.5),
    "longer": lambda path, other: os.truncate(path, 2 * path.stat().st_size),
    "overwritten": lambda path, other: path.write_bytes(bytes(path.stat().st_size)),
    "another's": lambda path, other: path.write_bytes(other.read_bytes()),
    "swapped": _swap,
    "deleted": lambda path, other: path.unlink(),
    "a folder": _replace,
    "a pipe": _pipe,
}
HARMLESS = {"longer"}
SLOW_FORMS = [("arrow", 0), ("tar", 0), ("tar", 2)]
FORMS = [("arrow", 2), *(pytest.param(*form, marks=pytest.mark.slow) for form in SLOW_FORMS)]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clozeline.train.data.stream.rounds._PAUSE_S", 0)


def changed(shards: ShardSet, name: str) -> None:
    CHANGES[name](shards.shard_path(1), shards.shard_path(2))


@pytest.fixture
def expected(tmp_path: Path) -> list[list[tuple[list[int], list[int], float]]]:
    with open_stream(toy_set(tmp_path / "whole", SIZES, container="arrow")) as stream:
        return [rows_of(stream.next_step()) for _ in range(STEPS)]


@pytest.mark.parametrize(("container", "threads"), FORMS)
@pytest.mark.parametrize("name", CHANGES)
def test_raise_ends_with_the_block_and_gives_no_other_row(
    tmp_path: Path, expected, name: str, threads: int, container: str
) -> None:
    shards = toy_set(tmp_path / "set", SIZES, container=container)
    given, damaged = [], None
    with open_stream(shards, io_threads=threads) as stream:
        try:
            for step in range(STEPS):
                given.append(rows_of(stream.next_step()))
                if step == 1:
                    changed(shards, name)
        except DamagedBlock as error:
            damaged = error
    assert given == expected[: len(given)]
    assert (damaged is None) == (name in HARMLESS)
    assert damaged is None or damaged.shard in {str(shards.shard_path(number)) for number in (1, 2)}


@pytest.mark.parametrize(("container", "threads"), FORMS)
@pytest.mark.parametrize("name", CHANGES)
def test_skip_gives_filler_instead_of_the_rows_that_are_lost(
    tmp_path: Path, expected, name: str, threads: int, container: str
) -> None:
    shards = toy_set(tmp_path / "set", SIZES, container=container)
    lost = 0
    with open_stream(shards, io_threads=threads, max_damaged_fraction=1.0) as stream:
        for step in range(STEPS):
            rows = rows_of(stream.next_step())
            for row, whole in zip(rows, expected[step], strict=True):
                assert row == whole or row[2] == 0.0
                lost += row != whole
            if step == 1:
                changed(shards, name)
    assert (lost == 0) == (name in HARMLESS)


LOOP = """
import sys, threading
from pathlib import Path
from clozeline.pipeline.shards import DamagedBlock, open_shards
from tests.train.data.stream.streams import open_stream, rows_of

shards = open_shards(Path(sys.argv[1]))
with open_stream(shards, io_threads=3, micro_batch=8) as stream:
    print("running", flush=True)
    try:
        while True:
            rows_of(stream.next_step())
    except DamagedBlock as error:
        print(error)
"""


@pytest.mark.slow
def test_a_process_whose_files_are_truncated_ends_by_no_signal(tmp_path: Path) -> None:
    """A mapped file that is truncated kills its reader with SIGBUS; this one is told of the block."""
    shards = toy_set(tmp_path, SIZES)
    child = subprocess.Popen(
        [sys.executable, "-c", LOOP, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "running\n"
    for number in range(3):
        os.truncate(shards.shard_path(number), 100)
    out, err = child.communicate(timeout=120)
    assert (child.returncode, err) == (0, "")
    assert "shard-0000" in out
    assert "block" in out
