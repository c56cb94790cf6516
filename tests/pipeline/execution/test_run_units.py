"""Units in worker processes: each runs once, and none outlives its driver."""

from __future__ import annotations

import os

import pytest

from clozeline.pipeline.execution.run_units import run_units
from clozeline.pipeline.recipe import ExecutorConfig
from tests.pipeline.execution.noting_steps import Noting


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
