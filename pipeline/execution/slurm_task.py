"""`python -m clozeline.pipeline.execution.slurm_task FILE`: one task of an array job, started by Slurm on a node.

The file holds a pickled executor, which can run any code: it is read only if it belongs to this user and no other user
can write it.
"""

import os
import shlex
import stat
import sys
from pathlib import Path
from typing import Any

import dill
from datatrove.executor import SlurmPipelineExecutor

from clozeline.command import run_command
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.execution.executors import logs_apart


class JobIds:
    """The ids of submitted jobs, as datatrove reads each from the answer of `sbatch`."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def __call__(self, answer: str) -> str:
        """Keep the job id of the answer."""
        self.found.append(answer.split()[-1])
        return self.found[-1]


class JobExecutor(SlurmPipelineExecutor):  # type: ignore[misc]
    """datatrove's executor, with a private file for what a task runs, and without a second job that sums statistics."""

    def save_executor_as_json(self, indent: int = 4) -> None:
        """Close `executor.pik` to other users; datatrove calls this between writing it and submitting the job."""
        Path(self.logging_dir.resolve_paths("executor.pik")).chmod(0o600)

    def launch_merge_stats(self) -> None:
        """Submit nothing: the records of the units hold all counts."""

    def get_launch_file_contents(self, sbatch_args: dict[str, Any], run_script: str) -> str:
        """Return the script of the job, which starts this module with the Python of the driver."""
        file = self.logging_dir.resolve_paths("executor.pik")
        command = (
            f"srun -l -n 1 {shlex.quote(sys.executable)} -m clozeline.pipeline.execution.slurm_task {shlex.quote(file)}"
        )
        text: str = super().get_launch_file_contents(sbatch_args, command)
        return text


def main(arguments: list[str]) -> int:
    """Run the task of the array index in the environment; return the exit code."""
    if len(arguments) != 1:
        raise ConfigurationError("expected one argument, the file executor.pik of a job")
    logs_apart()
    _load(Path(arguments[0])).run()
    return 0


def _load(path: Path) -> JobExecutor:
    with path.open("rb") as file:
        facts = os.fstat(file.fileno())
        if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
            raise IntegrityError(
                f"{path}: expected a file of user {os.geteuid()} with mode 600, got user {facts.st_uid} and mode "
                f"{stat.S_IMODE(facts.st_mode):o}; it can hold any code, and is not read: start the pipeline again"
            )
        executor = dill.load(file)
    if not isinstance(executor, JobExecutor):
        raise IntegrityError(f"{path}: holds no executor; start the pipeline again")
    return executor


if __name__ == "__main__":
    from clozeline.pipeline.execution.slurm_task import main as run  # the pickle names this module, not __main__

    raise SystemExit(run_command(lambda: run(sys.argv[1:])))
