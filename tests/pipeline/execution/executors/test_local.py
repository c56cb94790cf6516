"""Units dealt to tasks, and worker processes of this machine: none outlives its driver.

Ctrl-C is the driver's.
"""

import os
import signal
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.execution.executors import Assignment
from clozeline.pipeline.execution.stage_run import run_units
from clozeline.pipeline.recipe import ExecutorConfig
from tests.pipeline.execution.executors.external_workers import start, until
from tests.pipeline.execution.noting_steps import Endless, Reporting

pytestmark = pytest.mark.usefixtures("default_signals")


MODULE = "tests.pipeline.execution.executors.test_local"


def run_two(step):
    run_units(step, range(2), ExecutorConfig(workers=2), lambda **_: None)


def test_killed_driver_leaves_no_worker(tmp_path):
    with start(sys.executable, "-m", MODULE, str(tmp_path)) as driver:
        until(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
        workers = [psutil.Process(int(path.stem)) for path in tmp_path.glob("*.pid")]
        driver.kill()

    assert psutil.wait_procs(workers, timeout=30)[1] == []


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("moment", [0, 1, 2, "at their end"])
def test_ctrl_c_while_workers_start_or_end_is_honored_once_and_leaves_no_worker(
    tmp_path, monkeypatch, moment
):
    started = []
    real_start = BaseProcess.start
    real_stop = BaseProcess.terminate

    def start(process):
        if moment == len(started):
            interrupt()
        real_start(process)
        started.append(process)
        if len(started) == 2 and moment in (2, "at their end"):
            interrupt()

    def terminate(process):
        if moment == "at their end":
            interrupt()
        real_stop(process)

    monkeypatch.setattr(BaseProcess, "start", start)
    monkeypatch.setattr(BaseProcess, "terminate", terminate)
    with pytest.raises(KeyboardInterrupt):
        run_two(Endless(tmp_path))

    assert [process.is_alive() for process in started] == [False, False]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_run_in_the_background_of_a_script_ignores_ctrl_c_while_workers_start(
    tmp_path, monkeypatch
):
    real_start = BaseProcess.start
    monkeypatch.setattr(BaseProcess, "start", lambda each: (interrupt(), real_start(each)))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)

    try:
        run_two(Reporting(tmp_path))
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)

    assert [path.read_text() for path in tmp_path.glob("*.ignored")] == ["True"] * 2


class Counting:
    def __init__(self, done):
        self.results = set(done)
        self.runs = []

    def __call__(self, unit):
        self.runs.append(unit)
        self.results.add(unit)

    def has_result(self, unit):
        return unit in self.results


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 30), unique=True, max_size=12),
    st.integers(1, 5),
    st.sets(st.integers(0, 30)),
    st.data(),
)
def test_each_unit_without_a_result_runs_once_in_its_task(units, tasks, done, data):
    step = Counting(done)
    assignment = Assignment(step, units, tasks)

    for rank in data.draw(st.permutations(range(tasks))):
        before = len(step.runs)
        assignment.run(assignment.units_of(rank))
        ran = step.runs[before:]
        assert [assignment.task_of(unit) for unit in ran] == [rank] * len(ran)
        assert ran == [unit for unit in units if unit in ran], "in their order"

    assert sorted(step.runs) == sorted(set(units) - done)


if __name__ == "__main__":
    run_two(Endless(Path(sys.argv[1])))
