"""Run tasks as array jobs of Slurm, and wait until they have left the queue.

Nodes and the driver share the file system of the output. All jobs of a pass have the same name,
which depends on its folder. A job of this name that this driver did not submit comes from an
earlier driver, or from an `sbatch` whose answer was lost: it is canceled. A task runs this file
with the driver's Python. It reads its work from `tasks.pickle`, only if the file belongs to the
same user. That file and the logs are in `OUT/<stage>/logs/<pass>/`.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import dropwhile
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from clozeline.command import run_command
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, StorageError
from clozeline.files import publish_text
from clozeline.pipeline.execution.executors import (
    WORK_FILE,
    Assignment,
    Executor,
    load_work,
    publish_work,
    run_on_node,
    run_tasks,
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
# Messages of `sbatch` after which a later try may succeed: the user or the cluster has too many
# jobs, or the cluster cannot be reached.
_LIMIT_MESSAGE: Final = re.compile("Submit[A-Za-z]*Limit|queue full|retrying")
_UNREACHABLE_MESSAGE: Final = re.compile("Unable to contact|timed out")
_SILENT_QUERIES: Final = 30
"""The driver stops after as many unanswered queries of the queue."""
_LATE_QUERIES: Final = 6
"""Queries for which the driver waits for records of completed tasks: a network file system may show
records late."""
_RECORDS_S: Final = 1.0
"""Seconds between two checks for records, which are cheaper than queries of the queue."""
# A user's defaults and the variables of an outer job would become options of our commands. Only the
# variables that lead to the cluster are passed on.
_OPTION_PREFIXES: Final = (
    "SLURM_",
    "SBATCH_",
    "SRUN_",
    "SALLOC_",
    "SQUEUE_",
    "SCANCEL_",
    "SCONTROL_",
)
_KEPT_VARIABLES: Final = ("SLURM_CONF", "SLURM_JWT")
_DEFAULT_ARRAY: Final = 1001
"""Largest array by Slurm's default, if the cluster does not report its limit."""
_JOB_SCRIPT_FILE: Final = "job.sh"
_DRIVER_SCRIPT_FILE: Final = "driver.sh"


class Slurm(Executor):
    """Runs tasks as array jobs, as many at a time as the cluster takes."""

    @config_class
    class Options:
        partition: str
        """partition of the cluster"""
        time: str = "24:00:00"
        """time limit of a task, as for `sbatch --time`"""
        qos: str | None = None
        """quality of service; null: not requested"""
        cpus_per_task: Annotated[int, Field(ge=1)] = 1
        """cores of a task, which uses one; more cores give it more memory"""
        mem_per_cpu_gb: Annotated[int, Field(ge=1)] = 2
        """memory of each core in GB"""
        sbatch_args: dict[str, str | int] = field(default_factory=dict)
        """further options of `sbatch`: {account: corpus, exclude: node7, exclusive: ""}"""
        driver_bytes: Annotated[int, Field(ge=0)] = 2**25
        """a pass that reads fewer bytes runs in the driver's process; 0: submit every pass"""
        driver_time: str | None = None
        """time limit of the driver's job with `--detach`; null: the limit of the partition"""
        poll_s: Annotated[float, Field(gt=0)] = 10.0
        """seconds between two queries of the queue"""

    _options: Options

    def run(
        self, assignment: Assignment, tick: Callable[[], None], report: Callable[[str], None]
    ) -> Mapping[int, str]:
        """Submit the tasks, wait for the jobs, and return how tasks ended."""
        if (
            assignment.input_bytes is not None
            and assignment.input_bytes < self._options.driver_bytes
        ):
            run_tasks(replace(assignment, tick=tick), range(assignment.tasks))
            return {}

        _require_sbatch()
        folder = assignment.step.logs.resolve()
        if "\\" in str(folder):
            raise ConfigurationError(
                f"output: {folder}: Slurm cannot write logs if a folder has a backslash in its name"
            )

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

        self.final = arrays.are_canceled()
        return arrays.endings()

    def detach(self, folder: Path, words: Sequence[str]) -> tuple[str, Path]:
        """Submit the driver as a job of one core, which outlives the login; return job id and log.

        If its node fails, the job starts again and continues. A second driver of the same output is
        refused.
        """
        _require_sbatch()
        folder.mkdir(parents=True, exist_ok=True)
        name = _job_name("driver", folder.resolve())
        queued = _command(
            "squeue", f"--user={os.geteuid()}", f"--name={name}", "--noheader", "--format=%A"
        )
        if job := queued.stdout.strip():
            raise StorageError(
                f"output: {folder}: Slurm job {job} already runs this output; stop it by `scancel "
                f"{job}`"
            )

        publish_text(folder / _DRIVER_SCRIPT_FILE, f"#!/bin/bash\nexec {shlex.join(words)}\n")
        log = f"{folder.resolve()}/driver-".replace("%", "%%")
        limits = {
            "time": self._options.driver_time,
            "cpus-per-task": 1,
            "output": f"{log}%j.out",
            "job-name": name,
        }

        code, said = _sbatch([*_flags(self._options, limits), str(folder / _DRIVER_SCRIPT_FILE)])
        if code:
            raise StorageError(f"executor slurm: sbatch refused the driver: {said}")
        job = _job_id(said)
        return job, folder / f"driver-{job}.out"

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
        reported = False
        next_query = 0.0
        waiting = list(assignment.units)
        # each check of the records stops at the first missing one, and skips those found before
        while waiting := list(dropwhile(assignment.step.has_result, waiting)):
            if time.monotonic() >= next_query:
                queued = arrays.query_states()
                silent = silent + 1 if queued is None else 0
                if silent > _SILENT_QUERIES:
                    raise StorageError(
                        "executor slurm: squeue does not answer, so the jobs are canceled"
                    )

                if queued is not None and arrays.left and not arrays.are_canceled():
                    refusal = arrays.submit() if not (queued and self._config.workers) else ""
                    if refusal and not reported:
                        report(
                            f"executor slurm: {assignment.tasks - arrays.left:,} of "
                            f"{assignment.tasks:,} tasks are submitted; the others wait for the "
                            f"cluster ({refusal})"
                        )
                        reported = True
                elif queued == 0:
                    late += 1
                    if late > _LATE_QUERIES or any(
                        state != "COMPLETED" for state in arrays.states.values()
                    ):
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
        self.name = _job_name(folder.parents[1].name, folder)
        self.named = (f"--user={os.geteuid()}", f"--name={self.name}")
        self.left = tasks
        """number of tasks that are not submitted yet; they are the last tasks"""
        self.firsts: dict[str, int] = {}
        """first task of each job"""
        self.states: dict[int, str] = {}
        """last known state of each task"""
        self._tasks = tasks
        self._largest = 0
        self._size = tasks

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

        A refused array is halved; after an accepted one, the next is twice as large. With
        `workers`, only one array is submitted at a time.
        """
        if not self._largest:
            config = _command("scontrol", "show", "config").stdout
            limits = re.findall(r"MaxArraySize\s*=\s*(\d+)|max_array_tasks=(\d+)", config)
            self._largest = min(
                (int(size or tasks) for size, tasks in limits), default=_DEFAULT_ARRAY
            )

        while self.left:
            count = min(self._size, self.left, self._largest)
            first = self._tasks - self.left
            job, refusal = self._submit_array(first, count)

            if job:
                self.firsts[job] = first
                self.left -= count
                self._size = 2 * count
                if self._workers:
                    break
            elif count == 1 or _UNREACHABLE_MESSAGE.search(refusal):
                return refusal
            else:
                self._size = count // 2

        return ""

    def _submit_array(self, first: int, count: int) -> tuple[str, str]:
        """Submit an array.

        Return its job id and "", or "" and the reason if the cluster is full.
        """
        at_once = f"%{self._workers}" if self._workers else ""
        # Slurm would replace `%a` in the name of a folder, too
        logs = f"{self._folder}/".replace("%", "%%")
        words = {
            "output": f"{logs}%A_%a.out",
            "job-name": self.name,
            "array": f"0-{count - 1}{at_once}",
        }

        code, said = _sbatch(
            [*_flags(self._options, words), str(self._folder / _JOB_SCRIPT_FILE), str(first)]
        )
        if code and not _LIMIT_MESSAGE.search(said) and not _UNREACHABLE_MESSAGE.search(said):
            raise StorageError(f"executor slurm: sbatch refused the job: {said}")
        return ("", said) if code else (_job_id(said), "")

    def endings(self) -> dict[int, str]:
        """Return messages about how the tasks ended, with their logs."""
        endings = dict.fromkeys(
            range(self._tasks), "its task was not submitted, since another one was canceled"
        )

        for task in range(self._tasks - self.left):
            job, first = next(item for item in reversed(self.firsts.items()) if item[1] <= task)
            state = self.states.get(task, "")
            index = task - first
            how = f"ended as {state}" if state in _ENDED_STATES else "left the queue"
            log = self._folder / f"{job}_{index}.out"
            endings[task] = (
                f"task {index} of Slurm job {job} {how} before this unit was done; its log: {log}"
            )

        return endings


def _job_name(what: str, folder: Path) -> str:
    """Return the common name of the jobs of a folder, by which a later driver finds them."""
    return f"clozeline-{what}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"


def _job_id(said: str) -> str:
    """Return the job id from the output of `sbatch --parsable`, without the name of the cluster."""
    return said.splitlines()[-1].partition(";")[0]


def _require_sbatch() -> None:
    if shutil.which("sbatch") is None:
        raise StorageError("executor slurm: the command sbatch is missing; start on a login node")


def _flags(options: Slurm.Options, fixed: Mapping[str, object]) -> list[str]:
    """Return the options of `sbatch`: configured ones, replaced by `fixed`.

    None omits an option.
    """
    words: dict[str, object] = {
        "partition": options.partition,
        "time": options.time,
        "nodes": 1,
        "ntasks": 1,
    }

    words |= {"cpus-per-task": options.cpus_per_task, "requeue": "", "qos": options.qos}
    # Slurm takes one of --mem, --mem-per-cpu, --mem-per-gpu
    if not any(name.startswith("mem") for name in options.sbatch_args):
        words["mem-per-cpu"] = f"{options.mem_per_cpu_gb}G"
    words |= {**options.sbatch_args, "export": "ALL", "parsable": "", **fixed}
    return [
        f"--{name}" if value == "" else f"--{name}={value}"
        for name, value in words.items()
        if value is not None
    ]


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


def _sbatch(words: Sequence[str]) -> tuple[int, str]:
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
            return process.wait(), said.replace("sbatch: error: ", "").strip()
        except BaseException:
            process.kill()
            raise


def main(arguments: list[str]) -> int:
    """Run one task of `tasks.pickle`: the first task of the job plus the array index."""
    path = Path(arguments[0])
    assignment = load_work(path)
    run_on_node(assignment, int(arguments[1]) + int(os.environ["SLURM_ARRAY_TASK_ID"]))
    return 0


if __name__ == "__main__":
    raise SystemExit(run_command(lambda: main(sys.argv[1:])))
