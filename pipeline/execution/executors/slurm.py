"""Run tasks as array jobs of Slurm, and wait until they have left the queue.

Nodes and the driver share the file system of the output. All jobs of a pass have one name, by its
folder: what the queue holds under this name and this driver did not submit is of an earlier driver,
or of an `sbatch` whose answer was lost, and is canceled. A task runs this file with the Python of
the driver. Its work is `tasks.pickle`, which is read only where it belongs to the same user. That
file and the logs are in `OUT/<stage>/logs/<pass>/`.
"""

import hashlib
import os
import pickle
import re
import shlex
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import dropwhile
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from clozeline import plugins
from clozeline.command import run_command
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, IntegrityError, StorageError
from clozeline.files import publish, publish_text
from clozeline.pipeline.execution.executors import Assignment, Executor, run_on_node, run_tasks
from clozeline.pipeline.recipe import ExecutorConfig
from clozeline.process import python_command, run_child, start_child

_ENDED: Final = frozenset(
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
# Answers of `sbatch` that a later try may change: the jobs of the user or the cluster are too many,
# or it is away.
_LIMIT: Final = re.compile("Submit[A-Za-z]*Limit|queue full|retrying")
_AWAY: Final = re.compile("Unable to contact|timed out")
_SILENT_LOOKS: Final = 30  # at the queue without an answer before the driver gives up
_VISIBLE_LOOKS: Final = (
    6  # for the records of tasks that completed: a network file system may show them late
)
_BEAT_S: Final = 1.0  # between two looks for records, which cost less than a look at the queue
# A user's defaults and the variables of an outer job would be options of our commands. Those kept
# lead to the cluster.
_OPTIONS: Final = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SCANCEL_", "SCONTROL_")
_KEPT: Final = ("SLURM_CONF", "SLURM_JWT")
_LARGEST_ARRAY: Final = 1001  # where the cluster does not tell: Slurm's default
_WORK: Final = "tasks.pickle"
_SCRIPT: Final = "job.sh"
_DRIVER: Final = "driver.sh"


class Slurm(Executor):
    """Array jobs whose tasks run as the cluster has room for them."""

    @config_class
    class Options:
        partition: str
        """partition of the cluster"""
        time: str = "24:00:00"
        """limit of a task's time, as `sbatch --time` reads it"""
        qos: str | None = None
        """quality of service; null: none is asked for"""
        cpus_per_task: Annotated[int, Field(ge=1)] = 1
        """cores of a task, which uses one; more give it more memory"""
        mem_per_cpu_gb: Annotated[int, Field(ge=1)] = 2
        """memory of each core in GB"""
        sbatch_args: dict[str, str | int] = field(default_factory=dict)
        """further options of `sbatch`: {account: corpus, exclude: node7, exclusive: ""}"""
        driver_bytes: Annotated[int, Field(ge=0)] = 2**25
        """a pass that reads fewer bytes than this runs in the driver's process; 0 submits every
        pass"""
        driver_time: str | None = None
        """limit of the time of a driver that `--detach` makes a job; null: that of the partition"""
        poll_s: Annotated[float, Field(gt=0)] = 10.0
        """seconds between two looks at the queue"""

    def __init__(self, options: Options, config: ExecutorConfig) -> None:
        self._options = options
        self._config = config
        self.final = False

    def run(
        self, assignment: Assignment, tick: Callable[[], None], report: Callable[[str], None]
    ) -> Mapping[int, str]:
        """Submit the tasks, wait for the end of the jobs, and say how tasks ended."""
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
                f"output: {folder}: Slurm writes no log below a folder with a backslash in its name"
            )
        with publish(folder / _WORK) as temporary:
            temporary.touch(mode=0o600)
            temporary.write_bytes(pickle.dumps(assignment))
        task = shlex.join(python_command("-m", Slurm.__module__, str(folder / _WORK)))
        publish_text(folder / _SCRIPT, f'#!/bin/bash\nexec {task} "$1"\n')
        arrays = _Arrays(folder, assignment.tasks, self._options, self._config.workers)
        try:
            self._wait(arrays, assignment, tick, report)
        except BaseException:  # a signal or an error: no job goes on without its driver
            if (canceled := _command("scancel", *arrays.named)).returncode and arrays.firsts:
                report(
                    f"executor slurm: {canceled.stderr.strip()}; cancel by `scancel "
                    f"--name={arrays.name}`"
                )
            raise
        self.final = arrays.are_canceled()
        return arrays.endings()

    def detach(self, folder: Path, words: Sequence[str]) -> tuple[str, Path]:
        """Submit a command line as a job of one core, a driver that outlives the login; return job id and log.

        On a node that fails it starts again, and continues. A second one of the same output is
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
                f"output: {folder}: Slurm job {job} runs this output; stop it by `scancel {job}`"
            )
        publish_text(folder / _DRIVER, f"#!/bin/bash\nexec {shlex.join(words)}\n")
        log = f"{folder.resolve()}/driver-".replace("%", "%%")
        limits = {
            "time": self._options.driver_time,
            "cpus-per-task": 1,
            "output": f"{log}%j.out",
            "job-name": name,
        }
        code, said = _sbatch([*_flags(self._options, limits), str(folder / _DRIVER)])
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
        """Submit what the cluster takes, until every unit has a result or no task can give one any more."""
        silent = 0
        late = 0
        told = False
        next_look = 0.0
        waiting = list(assignment.units)
        # a look at the records stops at the first that is missing, and passes those found before no
        # more
        while waiting := list(dropwhile(assignment.step.has_result, waiting)):
            if time.monotonic() >= next_look:
                queued = arrays.look()
                silent = silent + 1 if queued is None else 0
                if silent > _SILENT_LOOKS:
                    raise StorageError(
                        "executor slurm: squeue does not answer, so the jobs are canceled"
                    )
                if queued is not None and arrays.left and not arrays.are_canceled():
                    refusal = arrays.submit() if not (queued and self._config.workers) else ""
                    if refusal and not told:
                        report(
                            f"executor slurm: {assignment.tasks - arrays.left:,} of {assignment.tasks:,} "
                            "tasks are submitted; the "
                            f"others wait until the cluster takes them ({refusal})"
                        )
                        told = True
                elif queued == 0:
                    late += 1
                    if late > _VISIBLE_LOOKS or any(
                        state != "COMPLETED" for state in arrays.states.values()
                    ):
                        return
                next_look = time.monotonic() + self._options.poll_s
            time.sleep(min(_BEAT_S, self._options.poll_s))
            tick()


class _Arrays:
    """The tasks of a round in array jobs: as many at a time as the cluster takes."""

    def __init__(
        self, folder: Path, tasks: int, options: Slurm.Options, workers: int | None
    ) -> None:
        self._folder = folder
        self._options = options
        self._workers = workers
        self.name = _job_name(folder.parents[1].name, folder)
        self.named = (f"--user={os.geteuid()}", f"--name={self.name}")
        self.left = tasks
        """tasks that are not submitted, the last ones"""
        self.firsts: dict[str, int] = {}
        """first task of each job"""
        self.states: dict[int, str] = {}
        """last state that was seen of each task"""
        self._tasks = tasks
        self._largest = 0
        self._size = tasks

    def are_canceled(self) -> bool:
        """Return whether somebody canceled a task."""
        return "CANCELLED" in self.states.values()

    def look(self) -> int | None:
        """Note the states of the tasks; return how many have not ended, None where the queue does not answer."""
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
                queued += state not in _ENDED
            elif state not in _ENDED:
                strangers.add(job)
        if strangers:
            _command("scancel", *strangers)
        return queued

    def submit(self) -> str:
        """Submit arrays until no task is left, or the cluster takes no more; return what it says then.

        An array that it refuses is halved, one after an accepted array is twice as large. With
        `workers`, one array at a time keeps to them.
        """
        if not self._largest:
            facts = _command("scontrol", "show", "config").stdout
            found = re.findall(r"MaxArraySize\s*=\s*(\d+)|max_array_tasks=(\d+)", facts)
            self._largest = min(
                (int(size or tasks) for size, tasks in found), default=_LARGEST_ARRAY
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
            elif count == 1 or _AWAY.search(refusal):
                return refusal
            else:
                self._size = count // 2
        return ""

    def _submit_array(self, first: int, count: int) -> tuple[str, str]:
        """Submit an array; return its job id, or "" and the reason for which the cluster does not take it now."""
        at_once = f"%{self._workers}" if self._workers else ""
        logs = f"{self._folder}/".replace(
            "%", "%%"
        )  # Slurm would replace `%a` in the name of a folder, too
        words = {
            "output": f"{logs}%A_%a.out",
            "job-name": self.name,
            "array": f"0-{count - 1}{at_once}",
        }
        code, said = _sbatch(
            [*_flags(self._options, words), str(self._folder / _SCRIPT), str(first)]
        )
        if code and not _LIMIT.search(said) and not _AWAY.search(said):
            raise StorageError(f"executor slurm: sbatch refused the job: {said}")
        return ("", said) if code else (_job_id(said), "")

    def endings(self) -> dict[int, str]:
        """Say how the tasks ended, with their logs."""
        told = dict.fromkeys(
            range(self._tasks), "its task was not submitted, since another one was canceled"
        )
        for task in range(self._tasks - self.left):
            job, first = next(item for item in reversed(self.firsts.items()) if item[1] <= task)
            state = self.states.get(task, "")
            index = task - first
            how = f"ended as {state}" if state in _ENDED else "left the queue"
            log = self._folder / f"{job}_{index}.out"
            told[task] = (
                f"task {index} of Slurm job {job} {how} before this unit was done; its log: {log}"
            )
        return told


def _job_name(what: str, folder: Path) -> str:
    """Return the name that jobs of a folder share, by which a later driver finds them."""
    return f"clozeline-{what}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"


def _job_id(said: str) -> str:
    """Return the id that `sbatch --parsable` prints last, without the name of the cluster."""
    return said.splitlines()[-1].partition(";")[0]


def _require_sbatch() -> None:
    if shutil.which("sbatch") is None:
        raise StorageError("executor slurm: there is no command sbatch; start on a login node")


def _flags(options: Slurm.Options, own: Mapping[str, object]) -> list[str]:
    """Return the options of `sbatch` for a job, those of the configuration and its `own`; None leaves one out."""
    given = options.sbatch_args
    words: dict[str, object] = {
        "partition": options.partition,
        "time": options.time,
        "nodes": 1,
        "ntasks": 1,
    }
    words |= {"cpus-per-task": options.cpus_per_task, "requeue": "", "qos": options.qos}
    if not any(
        name.startswith("mem") for name in given
    ):  # Slurm takes one of --mem, --mem-per-cpu, --mem-per-gpu
        words["mem-per-cpu"] = f"{options.mem_per_cpu_gb}G"
    words |= {**given, "export": "ALL", "parsable": "", **own}
    return [
        f"--{name}" if value == "" else f"--{name}={value}"
        for name, value in words.items()
        if value is not None
    ]


def _how() -> dict[str, Any]:
    """Return how a command of Slurm is started: its words alone say what it does.

    In a group of its own, because a signal for the driver's group must not end the `scancel` that
    follows from it.
    """
    clean = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or not name.startswith(_OPTIONS)
    }
    return {"env": clean, "process_group": 0, "text": True, "errors": "surrogateescape"}


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    return run_child(words, **_how())


def _sbatch(words: Sequence[str]) -> tuple[int, str]:
    """Return exit code and answer of `sbatch`; end one that would try again for minutes."""
    pipe = subprocess.PIPE
    said = ""
    with start_child(
        ("sbatch", *words), stdout=pipe, stderr=subprocess.STDOUT, **_how()
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
    """Run a task of the file `tasks.pickle`: the first one of the job plus the array index in the environment."""
    path = Path(arguments[0])
    with path.open("rb") as file:
        facts = os.fstat(file.fileno())
        if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
            raise IntegrityError(
                f"{path}: expected a file of user {os.geteuid()} with mode 600, got user "
                f"{facts.st_uid} and mode "
                f"{stat.S_IMODE(facts.st_mode):o}; it can hold any code, and is not read: start "
                "the pipeline again"
            )
        plugins.find_in_current_folder()
        assignment = pickle.load(file)
    run_on_node(assignment, int(arguments[1]) + int(os.environ["SLURM_ARRAY_TASK_ID"]), path.parent)
    return 0


if __name__ == "__main__":
    raise SystemExit(run_command(lambda: main(sys.argv[1:])))
