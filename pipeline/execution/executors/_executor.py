"""Interface between runner and executors: which units a task runs, and how a round runs them.

Work for processes elsewhere is a file, which only the user who wrote it can read or write.
"""

from __future__ import annotations

import math
import os
import pickle
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from clozeline import plugins
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import publish
from clozeline.memory import find_cores, find_memory, share_memory

if TYPE_CHECKING:
    from clozeline.pipeline.execution.stages import UnitRunner
    from clozeline.pipeline.recipe import ExecutorConfig

WORK_FILE: Final = "tasks.pickle"
"""Name of the file with the work of a round."""


@dataclass(frozen=True)
class Assignment:
    """Assignment of units to tasks of a cluster: task r of n runs units r, r + n, ..."""

    step: UnitRunner
    units: Sequence[str]
    tasks: int = 1
    input_bytes: float = math.inf
    """approximate bytes of the inputs of the units"""

    def run(self, units: Iterable[str], tick: Callable[[], object] = int) -> None:
        """Run units in this process; `tick` is called after each of them."""
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        for unit in units:
            if not self.step.has_result(unit):
                self.step(unit)
                tick()

    def units_of(self, task: int) -> Sequence[str]:
        """Return the units of a task."""
        return self.units[task :: self.tasks]

    def without_results(self, units: Sequence[str]) -> Sequence[str]:
        """Return the units that wait for a result.

        The check stops at the first one, which a loop that waits calls again.
        """
        return list(dropwhile(self.step.has_result, units))

    def task_of(self, unit: str) -> int:
        """Return the task of a unit."""
        return self.units.index(unit) % self.tasks


class Executor(ABC):
    """Runs one round over units; the caller retries units without a result."""

    final = False
    """true if units without a result must not be retried, for example after a canceled job"""
    has_tasks: ClassVar = False
    """whether the units of a round are dealt to tasks, whose number the user chooses"""

    def __init__(self, options: Any, config: ExecutorConfig) -> None:
        self._options = options
        self._config = config

    def describe(self) -> str:
        """Return how many units run at the same time, for the plan of a run."""
        at_once = f", {self._config.workers} at a time" if self._config.workers else ""
        return f"tasks of a pass: {self._config.tasks or 1}{at_once}"

    def memory_of_worker(self, units: int) -> tuple[float, str]:
        """Return the bytes that a worker has in a pass over some units, and how to have more.

        Here, the workers share the memory of a machine.
        """
        return find_memory() / self._workers(units), "lower executor.workers"

    def _workers(self, units: int) -> int:
        """Return the number of workers on this machine in a pass over some units."""
        return min(self._config.workers or find_cores(), max(units, 1))

    @abstractmethod
    def run(
        self, assignment: Assignment, tick: Callable[..., None], report: Callable[[str], None]
    ) -> Mapping[int, str]:
        """Run every task; return messages about tasks that ended early, by task.

        `tick` is called repeatedly, with the number of `workers` if it is known. `report` shows a
        line to the user while it runs.
        """


def memory_of_cores(cores: float, gigabytes: float) -> tuple[float, str]:
    """Return the memory of a worker that reserves cores, each with its memory."""
    return cores * gigabytes * 2**30, "raise executor.options.mem_per_cpu_gb"


def publish_work(path: Path, assignment: Assignment) -> None:
    """Publish work, with the folder of this process and the modules that may be imported."""
    names = os.environ.get(plugins.VARIABLE, "")
    with publish(path) as temporary:
        temporary.touch(mode=0o600)
        temporary.write_bytes(pickle.dumps((str(Path.cwd()), names, pickle.dumps(assignment))))


def load_work(path: Path) -> Assignment:
    """Return published work, and enter the folder in which it was published.

    Raises:
        FileNotFoundError: the work is no longer published.
        IntegrityError: another user can write the file.
        ConfigurationError: this machine lacks the folder or a module of the work.
    """
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid != os.geteuid() or mode & 0o077:
            raise IntegrityError(
                f"{path}: expected a file of user {os.geteuid()} with mode 600, got user "
                f"{status.st_uid} and mode {mode:o}; it could run any code, so it is not read: "
                "start the pipeline and all its workers as the same user"
            )
        folder, names, pickled = pickle.loads(file.read())
    try:
        os.chdir(folder)
        os.environ[plugins.VARIABLE] = names
        plugins.find_in_current_folder()
        assignment: Assignment = pickle.loads(pickled)
    except (OSError, ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"{path}: this machine cannot load the work: {error}. It needs the folder {folder}, "
            "in which the pipeline was started, and the same version of Clozeline and of your "
            "modules"
        ) from error
    return assignment


def run_on_node(assignment: Assignment, rank: int) -> None:
    """Run one task on a node of a cluster, each of whose cores may have a task."""
    share_memory(len(os.sched_getaffinity(0)))
    assignment.run(assignment.units_of(rank))
