"""Run tasks as array jobs of Slurm, and wait until they have left the queue.

Nodes and the driver share the file system of the output. All jobs of a pass have the same name,
which depends on its folder. A job of this name that this driver did not submit comes from an
earlier driver, or from an `sbatch` whose answer was lost: it is canceled. A task runs this file
with the driver's Python. It reads its work from `tasks.pickle`, only if the file belongs to the
same user. That file and the logs are in `OUT/<stage>/logs/<pass>/`; the file goes with the jobs.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from clozeline.command import run_command
from clozeline.configuration.config import Natural, Positive, Seconds, config_class
from clozeline.errors import StorageError
from clozeline.files import publish_text
from clozeline.pipeline.execution.executors import (
    WORK_FILE,
    Assignment,
    Executor,
    load_work,
    memory_of_cores,
    publish_work,
    run_on_node,
)
from clozeline.process import python_command, run_child, start_child

_ENDED_STATES: Final = frozenset(
    {
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "TIMEOUT",
        "OUT_OF_MEMORY",
        "NODE_FAIL",
        "BOOT_FAIL",
        "DEADLINE",
        "PREEMPTED",
        "REVOKED",
    }
)
# Messages of `sbatch` after which a later try may succeed: the array is too large, or the user or
# the cluster has too many jobs (a smaller array may be accepted at once); or the cluster cannot be
# reached.
_TRY_AGAIN: Final = re.compile(
    "(Invalid job array|Submit[A-Za-z]*Limit|queue full|retrying)|Unable to contact|timed out"
)
_SILENT_QUERIES: Final = 30
"""The driver stops after as many unanswered queries of the queue."""
_LATE_QUERIES: Final = 6
"""Queries for which the driver waits for records of completed tasks: a network file system may show
records late."""
_RECORDS_S: Final = 1.0
"""Seconds between two checks for records, which are cheaper than queries of the queue."""
# A user's defaults and the variables of an outer job would become options of our commands. Only the
# variables that lead to the cluster are passed on.
_OPTION_PREFIXES: Final = ("SLURM_", "SBATCH_", "SRUN_", "SQUEUE_", "SCANCEL_")
_KEPT_VARIABLES: Final = ("SLURM_CONF", "SLURM_JWT")
_JOB_SCRIPT_FILE: Final = "job.sh"


class Slurm(Executor):
    """Runs tasks as array jobs, as many at a time as the cluster takes."""

    has_tasks = True

    @config_class
    class Options:
        partition: str
        """partition of the cluster"""
        time: str = "24:00:00"
        """time limit of a task, as for `sbatch --time`"""
        cpus_per_task: Positive = 1
        """cores of a task, which uses one; more cores give it more memory"""
        mem_per_cpu_gb: Positive = 2
        """memory of each core in GB"""
        sbatch_args: dict[str, str | int] = field(default_factory=dict)
        """further options of `sbatch`: {account: corpus, exclude: node7, exclusive: ""}"""
        driver_bytes: Natural = 2**25
        """a pass over fewer bytes of inputs runs in the driver's process; 0: submit every pass"""
        poll_s: Annotated[Seconds, Field(gt=0)] = 10.0
        """seconds between two queries of the queue"""

    _options: Options

    def memory_of_worker(self, units: int) -> tuple[float, str]:
        """Return the memory of the cores that a task reserves."""
        return memory_of_cores(self._options.cpus_per_task, self._options.mem_per_cpu_gb)

    def run(
        self, assignment: Assignment, tick: Callable[[], None], report: Callable[[str], None]
    ) -> Mapping[int, str]:
        """Submit the tasks, wait for the jobs, and return how tasks ended."""
        if assignment.input_bytes < self._options.driver_bytes:
            assignment.run(assignment.units, tick)
            return {}

        if shutil.which("sbatch") is None:
            raise StorageError(
                "executor slurm: the command sbatch is missing; start on a login node"
            )
        folder = assignment.step.logs.resolve()
        publish_work(folder / WORK_FILE, assignment)
        task = shlex.join(python_command("-m", Slurm.__module__, str(folder / WORK_FILE)))
        publish_text(folder / _JOB_SCRIPT_FILE, f'#!/bin/bash\nexec {task} "$1"\n')
        arrays = _Arrays(folder, assignment.tasks, self._options, self._config.workers)

        try:
            self._wait(arrays, assignment, tick, report)
        except BaseException:  # a signal or an error: no job may continue without its driver
            if (canceled := _command("scancel", *arrays.named)).returncode and arrays.firsts:
                report(
                    f"executor slurm: {canceled.stderr.strip()}; cancel by `scancel "
                    f"--name={arrays.name}`"
                )
            raise
        finally:  # it holds the recipe, with the keys of stores
            (folder / WORK_FILE).unlink(missing_ok=True)

        self.final = arrays.are_canceled()
        return arrays.endings()

    def _wait(
        self,
        arrays: "_Arrays",
        assignment: Assignment,
        tick: Callable[[], None],
        report: Callable[[str], None],
    ) -> None:
        """Submit tasks as the cluster takes them, until all units or all tasks are finished."""
        silent = 0
        late = 0
        said = ""
        next_query = 0.0
        waiting = assignment.units
        while waiting := assignment.without_results(waiting):
            if time.monotonic() >= next_query:
                queued = arrays.query_states()
                silent = silent + 1 if queued is None else 0
                if silent > _SILENT_QUERIES:
                    raise StorageError(
                        "executor slurm: squeue does not answer, so the jobs are canceled"
                    )

                if queued is not None and arrays.left and not arrays.are_canceled():
                    refusal = arrays.submit() if not (queued and self._config.workers) else ""
                    if refusal and not said:
                        said = (
                            f"executor slurm: {assignment.tasks - arrays.left:,} of "
                            f"{assignment.tasks:,} tasks are submitted; the others wait for the "
                            f"cluster ({refusal})"
                        )
                        report(said)
                elif queued == 0:
                    late += 1
                    if late > _LATE_QUERIES or {*arrays.states.values()} - {"COMPLETED"}:
                        return

                next_query = time.monotonic() + self._options.poll_s

            time.sleep(min(_RECORDS_S, self._options.poll_s))
            tick()


class _Arrays:
    """Array jobs with the tasks of a round, as many at a time as the cluster takes."""

    def __init__(
        self, folder: Path, tasks: int, options: Slurm.Options, workers: int | None
    ) -> None:
        self._folder = folder
        self._options = options
        self._workers = workers
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
        self.name = f"clozeline-{folder.parents[1].name}-{digest}"
        """common name of the jobs of a folder, by which a later driver finds them"""
        self.named = (f"--user={os.geteuid()}", f"--name={self.name}")
        self.left = tasks
        """number of tasks that are not submitted yet; they are the last tasks"""
        self.firsts: dict[str, int] = {}
        """first task of each job"""
        self.states: dict[int, str] = {}
        """last known state of each task"""
        self._tasks = tasks

    def are_canceled(self) -> bool:
        """Return whether a task was canceled."""
        return "CANCELLED" in self.states.values()

    def query_states(self) -> int | None:
        """Update the states of the tasks.

        Return how many have not ended, None if the queue is silent.
        """
        answer = _command(
            "squeue", *self.named, "--noheader", "--array", "--states=all", "--format=%F|%K|%T"
        )
        if answer.returncode:
            return None

        queued = 0
        strangers = set()

        for line in answer.stdout.splitlines():
            job, index, state = line.split("|")
            if job in self.firsts:
                self.states[self.firsts[job] + int(index)] = state
                queued += state not in _ENDED_STATES
            elif state not in _ENDED_STATES:
                strangers.add(job)

        if strangers:
            _command("scancel", *strangers)
        return queued

    def submit(self) -> str:
        """Submit arrays until all tasks are submitted, or the cluster refuses; return its message.

        A refused array is halved. With `workers`, only one array is submitted at a time.
        """
        size = self.left
        while self.left:
            size = min(size, self.left)
            code, said = self._submit_array(self._tasks - self.left, size)
            if not code:
                job = said.splitlines()[-1].partition(";")[0]  # without the name of the cluster
                self.firsts[job] = self._tasks - self.left
                self.left -= size
                if self._workers:
                    break
            elif (again := _TRY_AGAIN.search(said)) is None:
                raise StorageError(f"executor slurm: sbatch refused the job: {said}")
            elif size == 1 or not again[1]:
                return said
            else:
                size //= 2

        return ""

    def _submit_array(self, first: int, count: int) -> tuple[int, str]:
        """Submit an array; return exit code and output of `sbatch`."""
        at_once = f"%{self._workers}" if self._workers else ""
        # Slurm would replace `%a` in the name of a folder, too
        logs = f"{self._folder}/".replace("%", "%%")
        words: dict[str, object] = {
            "partition": self._options.partition,
            "time": self._options.time,
            "cpus-per-task": self._options.cpus_per_task,
            "requeue": "",
        }
        # Slurm takes one of --mem, --mem-per-cpu, --mem-per-gpu
        if not any(name.startswith("mem") for name in self._options.sbatch_args):
            words["mem-per-cpu"] = f"{self._options.mem_per_cpu_gb}G"
        words |= {
            **self._options.sbatch_args,
            "parsable": "",
            "output": f"{logs}%A_%a.out",
            "job-name": self.name,
            "array": f"0-{count - 1}{at_once}",
        }
        flags = [
            f"--{name}" if value == "" else f"--{name}={value}" for name, value in words.items()
        ]
        return _sbatch(*flags, str(self._folder / _JOB_SCRIPT_FILE), str(first))

    def endings(self) -> dict[int, str]:
        """Return messages about how the tasks ended, with their logs."""
        endings = dict.fromkeys(
            range(self._tasks), "its task was not submitted, since another one was canceled"
        )
        ends = [*self.firsts.values(), self._tasks - self.left]
        for (job, first), end in zip(self.firsts.items(), ends[1:], strict=True):
            for task in range(first, end):
                state = self.states.get(task, "")
                how = f"ended as {state}" if state in _ENDED_STATES else "left the queue"
                log = self._folder / f"{job}_{task - first}.out"
                endings[task] = (
                    f"task {task - first} of Slurm job {job} {how} before this unit was done; its "
                    f"log: {log}"
                )
        return endings


def _process_settings() -> dict[str, Any]:
    """Return settings under which a Slurm command depends on its arguments alone.

    It runs in a new process group: a signal to the driver's group must not end a following
    `scancel`.
    """
    clean = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT_VARIABLES or not name.startswith(_OPTION_PREFIXES)
    }
    return {"env": clean, "process_group": 0, "text": True, "errors": "surrogateescape"}


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    return run_child(words, **_process_settings())


def _sbatch(*words: str) -> tuple[int, str]:
    """Return exit code and output of `sbatch`; kill it if it would retry for minutes."""
    pipe = subprocess.PIPE
    said = ""
    with start_child(
        ("sbatch", *words), stdout=pipe, stderr=subprocess.STDOUT, **_process_settings()
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                said += line
                if "retrying" in line:
                    process.kill()
        except BaseException:  # such as Ctrl-C
            process.kill()
            raise
        return process.wait(), said.replace("sbatch: error: ", "").strip()


def main(arguments: list[str]) -> int:
    """Run one task of `tasks.pickle`: the first task of the job plus the array index."""
    path = Path(arguments[0])
    assignment = load_work(path)
    run_on_node(assignment, int(arguments[1]) + int(os.environ["SLURM_ARRAY_TASK_ID"]))
    return 0


if __name__ == "__main__":
    raise SystemExit(run_command(lambda: main(sys.argv[1:])))
