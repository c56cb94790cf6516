"""Units in worker processes: each runs once, and none outlives its driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from pipeline.execution.executors import run_units
from pipeline.recipe import ExecutorConfig


@dataclass
class Noting:
    """A step that notes its process; the units of `fatal` kill the worker before it can."""

    folder: Path
    fatal: Sequence[int] = ()

    def __call__(self, unit: int) -> None:
        with (self.folder / f"{unit}.started").open("a") as file:
            file.write("x")
        if unit in self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        (self.folder / f"{unit}.done").write_text(f"{os.getpid()}")

    def done(self, unit: int) -> bool:
        return (self.folder / f"{unit}.done").exists()

    def started(self, unit: int) -> bool:
        return (self.folder / f"{unit}.started").exists() and not self.done(unit)

    def give_up(self, unit: int, reason: str) -> None:
        (self.folder / f"{unit}.done").write_text(reason)


@pytest.mark.parametrize(("tasks", "workers", "processes"), [(1, 1, 1), (3, 1, 1), (4, 2, 2), (9, 9, 5)])
def test_every_unit_runs_once_in_as_many_processes_as_asked(tmp_path, tasks, workers, processes):
    run_units(Noting(tmp_path), [3, 1, 4, 5, 9], ExecutorConfig(tasks=tasks, workers=workers), lambda: None)
    assert {path.stem for path in tmp_path.glob("*.done")} == {"1", "3", "4", "5", "9"}
    assert {path.read_text() for path in tmp_path.glob("*.started")} == {"x"}
    found = {path.read_text() for path in tmp_path.glob("*.done")}
    assert len(found) == processes
    assert (found == {str(os.getpid())}) == (workers == 1)


def test_a_unit_that_kills_its_worker_is_tried_twice_and_given_up(tmp_path):
    run_units(Noting(tmp_path, fatal=[1]), range(5), ExecutorConfig(tasks=5, workers=2), lambda: None)
    assert "worker process died" in (tmp_path / "1.done").read_text()
    assert (tmp_path / "1.started").read_text() == "xx"
    assert all((tmp_path / f"{unit}.done").read_text().isdigit() for unit in (0, 2, 3, 4))


def test_no_unit_starts_no_process(tmp_path):
    run_units(Noting(tmp_path), [], ExecutorConfig(tasks=2, workers=2), lambda: pytest.fail("ticked"))
    assert list(tmp_path.iterdir()) == []


class Endless:
    """A step whose unit never ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, unit: int) -> None:
        (self.folder / f"{os.getpid()}.pid").touch()
        signal.pause()

    def done(self, unit: int) -> bool:
        return False

    def started(self, unit: int) -> bool:
        return False

    def give_up(self, unit: int, reason: str) -> None: ...


def test_killed_driver_leaves_no_worker(tmp_path):
    driver = subprocess.Popen([sys.executable, "-m", "tests.pipeline.execution.test_executors", str(tmp_path)])
    deadline = time.monotonic() + 60
    while len(workers := list(tmp_path.glob("*.pid"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    pids = [int(path.stem) for path in workers]
    assert len(pids) == 2
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=30)
    assert not alive


if __name__ == "__main__":
    run_units(Endless(Path(sys.argv[1])), range(2), ExecutorConfig(tasks=2, workers=2), lambda: None)
