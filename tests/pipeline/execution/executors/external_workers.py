"""Drivers and workers of `executor.name=external`, as processes.

`python -m tests.pipeline.execution.executors.external_workers OUTPUT [FAULT]` is a driver: it runs
a stage of two passes.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from clozeline.command import run_command, stopping_at_signals
from clozeline.pipeline.execution.output_lock import hold_output
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.stage_run import StageRun
from clozeline.pipeline.execution.unit_record import KnownRecords
from clozeline.pipeline.recipe import ExecutorConfig, Recipe
from tests.distributed import ROOT
from tests.pipeline.execution.toy_stage import ToyStage, tree

COMMANDS = Path(sys.executable).parent
VARIABLES = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "PATH": f"{COMMANDS}:{os.environ['PATH']}",
}
PATIENCE_S = 120


@contextmanager
def at_most(seconds):
    """Raise TimeoutError in a driver that no worker helps."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)

    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def execute(output, fault="", name="external"):
    """Run the toy stage as a driver does."""
    executor = ExecutorConfig(name=name)
    toy = ToyStage(Recipe(corpus="toy", output=output, executor=executor), fault)
    with at_most(PATIENCE_S), hold_output(output, lambda: None):
        StageRun(toy, KnownRecords()).execute(Progress())


def start(*words, folder=ROOT):
    """Start a program, whose messages can be read from its output."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        words, cwd=folder, env=VARIABLES, stdout=pipe, stderr=subprocess.STDOUT, text=True
    )


def start_driver(output, fault=""):
    return start(sys.executable, "-m", __name__, str(output), fault)


def start_worker(output, *words, folder=ROOT):
    return start(str(COMMANDS / "clozeline"), "work", str(output), *words, folder=folder)


def end(process):
    """Wait for the end of a process; return its exit code and what it said."""
    said, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, " ".join(said.split())


def restart_workers(output):
    """Start one worker after another until the run ends; return how many were killed."""
    killed = 0
    while end(process := start_worker(output))[0]:
        assert process.returncode == -9
        killed += 1
    return killed


def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def results(output, stage="dedup"):
    """The files of a stage, but for logs."""
    return {
        name: content
        for name, content in tree(output / stage).items()
        if not name.startswith("logs/")
    }


def main():
    with stopping_at_signals():
        execute(Path(sys.argv[1]), sys.argv[2])
    return 0


if __name__ == "__main__":
    __name__ = "tests.pipeline.execution.executors.external_workers"
    raise SystemExit(run_command(main))
