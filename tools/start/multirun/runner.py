"""Run the trainings of an experiment, and collect the results.

Each is launched once; interrupted ones are resumed.

An experiment is a set of trainings to compare. `ExperimentTraining.collect` starts `train/main.py`,
which resumes from the last checkpoint, and then measures; a training with complete results is not
started. Each command is printed as a user would type it in the root folder.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from clozeline import HOME
from clozeline.configuration.config import load_config, to_data
from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.files import publish_text, read_json
from clozeline.process import PROGRAMS, start_child
from clozeline.train.configuration.config import with_absolute_paths

ROOT: Final = HOME
"""Working directory of every step, which the commands are relative to."""
RANKS: Final = 2
"""Number of processes that share the cores of a demo; each step gets its share of the threads."""
_RUNNING: Final[set[subprocess.Popen[bytes]]] = set()
"""Steps that run, in any thread."""
_POLL_S: Final = 0.2
_WATCH_S: Final = 1.0


class StepFailedError(ClozelineError):
    """A command failed, after it printed its error."""

    def __init__(self, command: Sequence[str], code: int) -> None:
        super().__init__(f"this command ended with exit code {code}: {shlex.join(command)}")
        self.exit_code = code if code > 0 else 1


@dataclass(frozen=True)
class ExperimentTraining:
    """One training of an experiment, and its result files.

    `keys` are written to `config` before the start (None: the file exists). Each result file is
    measured and written by its function, unless `is_complete`.
    """

    config: Path
    results: Mapping[Path, Callable[[Path], object]]
    keys: Mapping[str, Any] | None = None
    overrides: Sequence[str] = ()
    is_complete: Callable[[Path], bool] = Path.exists
    watch: Callable[[], bool] | None = None
    """called about once a second while the training runs, until it returns True"""

    def collect(self) -> None:
        """Train, and measure missing results; do nothing if all are complete."""
        missing = [path for path in self.results if not self.is_complete(path)]
        if not missing:
            return
        if self.keys is not None:
            publish_text(self.config, yaml.safe_dump(dict(self.keys), sort_keys=False))
        words: list[str | Path] = ["clozeline", "train", "--config", self.config, *self.overrides]
        run_step(*words, accelerator=None, watch=self.watch)
        for path in missing:
            self.results[path](path)


def check_training(config: Path, words: Sequence[str]) -> None:
    """Refuse a training with a wrong configuration or schedule, before its sets are made."""
    from clozeline.train.configuration.config import TrainConfig, check_schedule

    checked = load_config(TrainConfig, config, words, is_users=True)
    options = checked.schedule.options
    if checked.steps != "auto":
        check_schedule(options, options.steps or checked.steps)


def collect_all(trainings: Iterable[ExperimentTraining], at_once: int = 1) -> None:
    """Train and measure every training without complete results.

    With `at_once` > 1 trainings run concurrently; with 1, the first failure ends the experiment.
    """
    if at_once == 1:
        for training in trainings:
            training.collect()
    else:
        run_at_once([training.collect for training in trainings], at_once)


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
    watch: Callable[[], bool] | None = None,
) -> None:
    """Print a command as a user would type it in the root folder, and run it.

    `accelerator` is the default for `DS_ACCELERATOR`; None: whatever the machine has. `watch` is
    called about once a second while the command runs, until it returns True.
    """
    words = [str(part) for part in command]
    environment = dict(variables or {})
    print(
        "\n$ "
        + " ".join([*(f"{key}={value}" for key, value in environment.items()), shlex.join(words)]),
        flush=True,
    )

    program = [str(PROGRAMS / words[0]), *words[1:]]
    with start_child(
        program, cwd=ROOT, env=_step_environment(accelerator) | environment
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


def experiment_settings(options: Any, *without: str) -> dict[str, Any]:
    """Return the settings of an experiment as data with absolute paths.

    Keys in `without` may change, and are not returned.
    """
    settings: dict[str, Any] = to_data(with_absolute_paths(options))
    return {name: value for name, value in settings.items() if name not in without}


def write_settings(path: Path, settings: Mapping[str, object]) -> None:
    """Record what an output folder is for, so that no other command mixes its runs with these."""
    check_settings(path, settings)
    publish_text(path, json.dumps(settings, indent=2, sort_keys=True) + "\n")


def check_settings(path: Path, settings: Mapping[str, object]) -> None:
    """Check that an output folder holds no runs of a different command.

    Without a run, its note is ignored.
    """
    configs = (file.relative_to(path.parent) for file in path.parent.rglob("config.yaml"))
    # Stages keep a configuration too, and make their sets again for other keys.
    if not path.exists() or all("sets" in file.parts for file in configs):
        return
    recorded = read_json(path)
    if recorded is None:
        raise ConfigurationError(f"{path}: is damaged; choose another output")
    if changed := sorted(
        key for key in {*recorded, *settings} if recorded.get(key) != settings.get(key)
    ):
        key = changed[0]
        raise ConfigurationError(
            f"output: {path.parent} holds runs with other settings: {key} was "
            f"{recorded.get(key)!r}, is {settings.get(key)!r}; choose another output"
        )
