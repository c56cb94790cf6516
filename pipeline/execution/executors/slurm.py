"""Run tasks as Slurm array jobs, by datatrove's executor, and wait until they leave the queue.

A round is one array, or several at a time where it has more tasks than the cluster's arrays hold. Nodes and the driver
share the file system of the output. A task runs this Python, by its full path. What it runs is handed over as
`executor.pik`, written with mode 0600 and read back only where it belongs to the same user
(`pipeline.execution.slurm_task`). Logs and that file are in `OUT/<stage>/logs/<pass>/`.
"""

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, field
from itertools import dropwhile
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import StorageError
from clozeline.files import publish_text
from clozeline.pipeline.execution.executors import Deal, logs_apart
from clozeline.pipeline.recipe import ExecutorConfig

Word = Annotated[str, Field(pattern=r"^[^\s]+$")]
_JOB: Final = "slurm_job"
# States of a task that has not ended.
_WAITING: Final = frozenset({
    "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESIZING",
    "SUSPENDED", "SIGNALING", "STAGE_OUT", "STOPPED", "SPECIAL_EXIT", "RESV_DEL_HOLD",
})  # fmt: skip
# Times that the queue may fail to answer before the driver gives up.
_SILENT_POLLS: Final = 30
# Times to look for the records of tasks that completed: a network file system may show them late.
_VISIBLE_POLLS: Final = 6


class Slurm:
    """Array jobs whose tasks run as the cluster has room for them."""

    @config_class
    class Options:
        partition: Word
        """partition of the cluster"""
        time: Word = "24:00:00"
        """limit of a task's time, as `sbatch --time` reads it"""
        qos: Word | None = None
        """quality of service; null: none is asked for"""
        cpus_per_task: Annotated[int, Field(ge=1)] = 1
        """cores of a task, which uses one; more give it more memory"""
        mem_per_cpu_gb: Annotated[int, Field(ge=1)] = 2
        """memory of each core in GB"""
        max_array_size: Annotated[int, Field(ge=1)] = 1001
        """largest array of the cluster (`scontrol show config`, MaxArraySize); more tasks are several jobs at a time"""
        sbatch_args: dict[Word, Word | int] = field(default_factory=dict)
        """further directives: {account: corpus, exclude: node7}"""
        poll_s: Annotated[float, Field(gt=0)] = 10.0
        """seconds between two looks at the queue"""

    def __init__(self, options: Options, config: ExecutorConfig) -> None:
        self._options, self._config = options, config
        self.final = False

    def run(self, deal: Deal, tick: Callable[[], None]) -> Mapping[int, str]:
        """Submit the tasks, wait for the end of the job, and name the tasks that did not complete."""
        folder = deal.step.logs.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # cancel the job of a killed driver
            earlier = (folder / _JOB).read_text(encoding="utf-8").split(",")
            if all(job.isdecimal() for job in earlier) and _in_queue(earlier):
                _command("scancel", *earlier)
        with _cancelling(self._submit(deal, folder)) as jobs:
            publish_text(folder / _JOB, ",".join(jobs))
            self._wait(jobs, deal, tick)
            states = self._states(jobs)
            for _ in range(_VISIBLE_POLLS):
                if deal.is_complete() or any(state != "COMPLETED" for state in states.values()):
                    break
                time.sleep(self._options.poll_s)
                tick()
        (folder / _JOB).unlink()
        self.final = any(state.startswith("CANCELLED") for state in states.values())
        endings = {}
        for task in range(deal.tasks):
            array, index = divmod(task, self._options.max_array_size)
            how = f"ended as {states[task]}" if states.get(task) else "left the queue"
            log = folder / f"{jobs[array]}_{index}.out"
            endings[task] = f"task {index} of Slurm job {jobs[array]} {how} before this unit was done; its log: {log}"
        return endings

    def _submit(self, deal: Deal, folder: Path) -> list[str]:
        logs_apart()
        from clozeline.pipeline.execution.slurm_task import JobExecutor, JobIds

        options, ids = asdict(self._options), JobIds()
        del options["poll_s"]
        arrays = -(-deal.tasks // self._options.max_array_size)
        executor = JobExecutor(
            [deal], **options, tasks=deal.tasks, max_array_launch_parallel=True, job_id_retriever=ids,
            workers=max(1, self._config.workers // arrays) if self._config.workers else -1,
            job_name=f"clozeline-{folder.parents[1].name}", logging_dir=str(folder), slurm_logs_folder=str(folder),
            skip_completed=False, srun_args={"ntasks": 1},
        )  # fmt: skip
        try:
            with _cancelling(ids.found):
                executor.launch_job()
        except subprocess.CalledProcessError as error:
            raise StorageError(f"executor slurm: sbatch refused the job (its message is above): {error}") from error
        except FileNotFoundError as error:
            raise StorageError(
                f"executor slurm: there is no command {error.filename}; start on a login node"
            ) from error
        return ids.found

    def _wait(self, jobs: list[str], deal: Deal, tick: Callable[[], None]) -> None:
        silent, waiting = 0, list(deal.units)
        # a look at the records stops at the first that is missing, and passes those found before no more
        while waiting := list(dropwhile(deal.step.has_result, waiting)):
            queued = _in_queue(jobs)
            silent = silent + 1 if queued is None else 0
            if silent > _SILENT_POLLS:
                raise StorageError(f"executor slurm: squeue does not answer; jobs {jobs} were canceled")
            if queued is False and not any(state in _WAITING for state in self._states(jobs).values()):
                return
            time.sleep(self._options.poll_s)
            tick()

    def _states(self, jobs: list[str]) -> dict[int, str]:
        """Return the state of each task; nothing where the cluster keeps no accounts."""
        words = ("--noheader", "--parsable2", "--allocations", "--format", "JobID,State", "--jobs", ",".join(jobs))
        answer = _command("sacct", *words)
        states: dict[int, str] = {}
        for line in answer.stdout.splitlines() if answer.returncode == 0 else []:
            name, _, state = line.partition("|")
            job, _, tasks = name.partition("_")
            first = jobs.index(job) * self._options.max_array_size if job in jobs else 0
            for low, high in re.findall(r"(\d+)(?:-(\d+))?", tasks.partition("%")[0]):
                named = range(first + int(low), first + int(high or low) + 1)
                states |= dict.fromkeys(named, state.split(" ")[0].rstrip("+"))
        return states


@contextmanager
def _cancelling(jobs: list[str]) -> Iterator[list[str]]:
    """Cancel the jobs if the driver stops before their end, by a signal or an error."""
    try:
        yield jobs
    except BaseException:
        if jobs:
            _command("scancel", *jobs)
        raise


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        # in a group of its own: a signal for the driver's group must not end the `scancel` that follows from it
        return subprocess.run(words, capture_output=True, text=True, check=False, process_group=0)
    except FileNotFoundError as error:
        return subprocess.CompletedProcess(words, 127, "", str(error))


def _in_queue(jobs: list[str]) -> bool | None:
    """Return whether the queue holds a task of the jobs; None where it does not answer."""
    answer = _command("squeue", "--noheader", "--jobs", ",".join(jobs), "--format", "%i")
    if answer.returncode == 0:
        return bool(answer.stdout.strip())
    return False if "Invalid job id" in answer.stderr else None
