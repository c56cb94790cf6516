"""Run a plan: a list of commands, each with the files of its results.

A command without its results is run, or resumed where an interrupted call stopped, and what it made
is measured. Each is printed as a user would type it.
"""

import atexit
import os
import shlex
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from clozeline import HOME
from clozeline.configuration.config import load_config, to_data
from clozeline.configuration.redaction import redact, redact_text
from clozeline.errors import ClozelineError, ConfigurationError, IntegrityError, plural
from clozeline.files import publish_json, read_json, require_empty
from clozeline.output_lock import hold_output
from clozeline.process import PROGRAMS, start_child
from clozeline.terminal import duration_text
from clozeline.train.configuration.config import with_absolute_paths
from clozeline.train.logs.json_lines import read_lines, step_records

ROOT: Final = HOME
"""Folder of commands with paths of the repository."""
RANKS: Final = 2
"""Number of processes that share the cores of a demo; each step gets its share of the threads."""
_RUNNING: Final[set[subprocess.Popen[bytes]]] = set()
"""Steps that run, in any thread."""
_CLAIMED: Final = set[Path]()
"""Folders that this process holds until it ends."""
_HELD: Final = ExitStack()
atexit.register(_HELD.close)
_POLL_S: Final = 0.2
_WATCH_S: Final = 1.0
_MEASURED_STEPS: Final = 20
"""Steps after the first recorded one that measure the time of a run."""


class StepFailedError(ClozelineError):
    """A command failed, after it printed its error."""

    def __init__(self, command: Sequence[str], code: int) -> None:
        super().__init__(f"{command[0]} ended with exit code {code}, as it says above")
        self.exit_code = code if code > 0 else 1


@dataclass(frozen=True)
class PlannedCommand:
    """A command of a plan, and its results: where all are there, it is not run again."""

    words: Sequence[str | Path]
    """command of `clozeline`"""
    results: Mapping[Path, Callable[[Path], object] | None]
    """files, each with the function that measures and writes it; None: the command writes it"""
    run: Path | None = None
    """output of a training, whose records tell its time"""

    @property
    def missing(self) -> list[Path]:
        """The results that are not there."""
        return [path for path in self.results if not path.exists()]

    def execute(self, trainings: int = 0) -> None:
        """Run the command in the current folder, then measure what is missing.

        A training tells the time of so many `trainings`, with its own.
        """
        missing = self.missing
        watch = None if self.run is None else tell_time(self.run, trainings)
        run_step("clozeline", *self.words, accelerator=None, folder=Path.cwd(), watch=watch)
        for path in missing:
            if (measure := self.results[path]) is not None:
                measure(path)


def training_step(
    config: Path,
    run: Path,
    words: Iterable[str],
    results: Mapping[Path, Callable[[Path], object] | None],
) -> PlannedCommand:
    """Return the step of a training into the folder `run`, which resumes an interrupted one."""
    return PlannedCommand(["train", "--config", config, *words, f"output={run}"], results, run)


def run_plan(steps: Sequence[PlannedCommand], at_once: int = 1) -> None:
    """List the steps without results, and run them.

    With `at_once` > 1 they run concurrently; with 1, the first failure ends the plan.
    """
    left = [step for step in steps if step.missing]
    trainings = [step.run for step in left if step.run is not None]
    if left:
        print(f"{len(left)} of {plural(len(steps), 'command')} to run", *trainings, sep="\n  ")
    jobs = [
        partial(step.execute, -(-sum(later.run is not None for later in left[number:]) // at_once))
        for number, step in enumerate(left)
    ]
    if at_once > 1:
        run_at_once(jobs, at_once)
        return
    for job in jobs:
        job()


def read_result(path: Path) -> dict[str, Any]:
    """Return the content of a result."""
    content = read_json(path)
    if content is None:
        raise IntegrityError(f"{path}: is damaged; remove it, and the same command makes it again")
    return content


def tell_time(run: Path, trainings: int) -> Callable[[], bool]:
    """Return a function that prints how long as many trainings as this one take.

    It does so after some 20 steps, and returns True.
    """

    def tell() -> bool:
        records = step_records(read_lines(run / "metrics.jsonl"))
        steps = records[-1]["step"] - records[0]["step"] if records else 0
        if steps < _MEASURED_STEPS:
            return False
        seconds = (records[-1]["time"] - records[0]["time"]) / steps
        planned = (event["steps"] for event in read_lines(run / "events.jsonl") if "steps" in event)
        total = duration_text(seconds * next(planned, steps) * trainings)
        runs = plural(trainings, "run")
        print(f"{runs}, about {total} in all, evaluations and scores not included", flush=True)
        return True

    return tell


def check_training(config: Path, words: Sequence[str]) -> None:
    """Refuse a training with a wrong configuration or schedule, before its sets are made."""
    from clozeline.train.configuration.config import TrainConfig, check_schedule

    checked = load_config(TrainConfig, config, words, is_users=True)
    options = checked.schedule.options
    if isinstance(checked.steps, int):
        check_schedule(options, options.steps or checked.steps)


def run_at_once(jobs: Iterable[Callable[[], object]], at_once: int) -> None:
    """Run jobs that train, some of them concurrently.

    The first error is raised when all others are through.
    """
    with ThreadPoolExecutor(at_once) as pool:
        ends = [pool.submit(job) for job in jobs]
        try:
            for ended in ends:
                ended.result()
        except KeyboardInterrupt:  # no further job starts, and each running one is asked to stop
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(ended.done() for ended in ends):
                while _RUNNING:
                    _RUNNING.pop().terminate()
                wait(ends, _POLL_S)
            raise


def run_step(
    *command: str | Path,
    accelerator: str | None = "cpu",
    variables: Mapping[str, str] | None = None,
    folder: Path = ROOT,
    watch: Callable[[], bool] | None = None,
) -> None:
    """Print a command as a user would type it in a folder, and run it there.

    `accelerator` is the default for `DS_ACCELERATOR`; None: whatever the machine has. `watch` is
    called about once a second while the command runs, until it returns True.
    """
    words = [str(part) for part in command]
    environment = dict(variables or {})
    line = " ".join([*(f"{key}={value}" for key, value in environment.items()), shlex.join(words)])
    print(f"\n$ {redact_text(line)}", flush=True)

    program = [str(PROGRAMS / words[0]), *words[1:]]
    with start_child(
        program, cwd=folder, env=_step_environment(accelerator) | environment
    ) as process:
        _RUNNING.add(process)

        try:
            while watch is not None and process.poll() is None:
                try:
                    process.wait(_WATCH_S)
                except subprocess.TimeoutExpired:
                    watch = None if watch() else watch
            code = process.wait()
        except KeyboardInterrupt:  # a training saves before it ends
            process.terminate()
            process.wait()
            raise
        finally:
            _RUNNING.discard(process)

    if code:
        raise StepFailedError(words, code)


def _step_environment(accelerator: str | None = "cpu") -> dict[str, str]:
    """Return the environment of a step.

    Our programs come first in PATH; threads follow from a rank's share of the cores.
    """
    threads = max(1, (os.cpu_count() or RANKS) // RANKS)
    defaults = {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    defaults |= {} if accelerator is None else {"DS_ACCELERATOR": accelerator}
    path = os.pathsep.join(filter(None, [str(PROGRAMS), os.environ.get("PATH")]))
    return {**defaults, **os.environ, "PATH": path}


def write_pages(warc: Path) -> None:
    """Write Python's documentation as a WARC, unless it is there."""
    if not warc.exists():  # pages show sets, whose order follows the seed
        module = "clozeline.tools.start.multirun.python_pages"
        run_step("python", "-m", module, warc, variables={"PYTHONHASHSEED": "0"})


def claim_folder(
    note: Path, options: Any, *free: str, results: str = "**/events.jsonl", **facts: object
) -> None:
    """Record what an output folder is for, so that no other command mixes its runs with these.

    That are the `options`, with absolute paths and without the keys in `free`, which may change,
    and further `facts`. Without `results` in the folder, its note is replaced. The folder is locked
    until this process ends.

    Raises:
        ConfigurationError: it holds other results, files of somebody else, or is in use.
    """
    data: dict[str, Any] = to_data(with_absolute_paths(options))
    settings = redact({key: value for key, value in data.items() if key not in free} | facts)

    if note.parent not in _CLAIMED:
        if not note.exists():
            require_empty(note.parent)
        _HELD.enter_context(hold_output(note.parent))
        _CLAIMED.add(note.parent)

    if note.exists() and any(note.parent.glob(results)):
        recorded = read_json(note)
        if recorded is None:
            raise ConfigurationError(f"{note}: is damaged; choose another output")
        for key in sorted({*recorded, *settings}):
            if recorded.get(key) != settings.get(key):
                raise ConfigurationError(
                    f"output: {note.parent} holds results of other settings: {key} was "
                    f"{recorded.get(key)!r}, is {settings.get(key)!r}; choose another output"
                )

    publish_json(note, settings)
