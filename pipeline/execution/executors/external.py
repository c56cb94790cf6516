"""Run units of a pipeline that was started with `executor.name=external`.

Start `clozeline work mine/data` once for each free core, on this machine or on others that see the
same folders at the same paths, by hand or with any scheduler. `docs/clusters.md` has the commands
for GNU parallel, Kubernetes and PBS. Workers may start before the pipeline, and may be stopped or
killed at any time. They end with exit code 0 when the pipeline ends.

The pipeline publishes the units of each pass in `OUTPUT/.work`. A worker claims a unit by a file
there, which it renews. If a worker dies, its unit runs again after the other units, at most
`executor.retries` times.
"""

import os
import random
import shlex
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

from clozeline.command import program_name, run_command, stopping_at_signals, wrap_log
from clozeline.command_line import Positional, asks_for_help, print_help, read_words
from clozeline.configuration.config import Positive, Seconds, config_class
from clozeline.configuration.paths import OutputPath
from clozeline.errors import StorageError
from clozeline.files import HOLDER, identify_process, read_json
from clozeline.memory import share_memory
from clozeline.output_lock import Holder
from clozeline.pipeline.execution.executors import (
    WORK_FILE,
    Assignment,
    Executor,
    load_work,
    publish_work,
)
from clozeline.process import restart_program

_FOLDER: Final = ".work"
_POLL_S: Final = 0.5
_SEEN_S: Final = 60.0
"""Seconds since a worker renewed a claim, within which it counts."""
_HANDOVER_S: Final = 2.0
"""Seconds without a driver after which a run has ended; the next driver may just take over."""


class External(Executor):
    """Publishes the units of a pass for workers that you start: `clozeline work OUTPUT`."""

    @config_class
    class Options:
        """None."""

    def describe(self) -> str:
        return "as many workers as you start"

    def run(
        self, assignment: Assignment, tick: Callable[..., None], report: Callable[[str], None]
    ) -> Mapping[int, str]:
        """Publish the units, and return when each has a result or its worker has died."""
        folder = _output_of(assignment) / _FOLDER
        shutil.rmtree(folder, ignore_errors=True)  # of a driver that was killed
        folder.mkdir(parents=True, exist_ok=True)
        published = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=folder))
        publish_work(published / WORK_FILE, assignment)
        _invite_workers(report, folder.parent)

        try:
            _wait(assignment, published, tick)
        finally:
            shutil.rmtree(published, ignore_errors=True)
        return {}


@cache
def _invite_workers(report: Callable[[str], None], output: Path) -> None:
    """Say once per run how to start a worker."""
    report(
        "This pipeline waits for workers. Open another terminal, here or on a machine that sees "
        "the same folders, and run this command once for each free core:\n"
        f"  clozeline work {shlex.quote(str(output))}"
    )


def _wait(assignment: Assignment, published: Path, tick: Callable[..., None]) -> None:
    """Return when each unit has a result, or a claim whose process has died."""
    claim_at = cache(Holder)
    lost: set[str] = set()
    seen: dict[str, float] = {}  # workers, and when they last renewed a claim
    waiting = assignment.units

    while waiting:
        time.sleep(_POLL_S)
        for path in published.glob("*.claim"):
            claim = claim_at(path)
            with suppress(FileNotFoundError):  # released meanwhile
                if claim.has_died():
                    lost.add(path.stem)
                seen[str(claim.process)] = claim.seen_at

        now = time.monotonic()
        tick(workers=sum(now - at < _SEEN_S for at in seen.values()))

        waiting = [unit for unit in assignment.without_results(waiting) if unit not in lost]


def _output_of(assignment: Assignment) -> Path:
    return assignment.step.logs.resolve().parents[2]


@config_class
class WorkOptions:
    """What a worker takes, and how long it waits."""

    output: Annotated[OutputPath, Positional(0)]
    """output folder of the pipeline"""
    workers: Positive | None = None
    """workers that share the memory of this machine or container, at least 1; default: one per core
    of the machine"""
    wait_s: Seconds = 600.0
    """seconds to wait for a pipeline that has not started yet, or whose process has died"""


def main(arguments: Sequence[str]) -> int:
    """Work on the units of a pipeline until it ends, and return the exit code."""

    def act() -> int:
        if asks_for_help(arguments):
            print_help(WorkOptions, arguments, __doc__, program_name("clozeline work"))
            return 0
        with stopping_at_signals():
            _work(read_words(WorkOptions, arguments, __doc__))

    return run_command(act)


def _work(options: WorkOptions) -> NoReturn:
    """Run units as they are published, until the thread `_watch` ends this process."""
    output = options.output.resolve()
    driver = read_json(output / HOLDER)
    words = (output, driver, options.wait_s, Path.cwd())
    threading.Thread(target=_watch, args=words, daemon=True).start()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    share_memory(options.workers or len(os.sched_getaffinity(0)))
    # a driver that was killed may have left the work of another recipe
    published = f"{driver and driver['pid']}-*/{WORK_FILE}"

    while True:
        for path in (output / _FOLDER).glob(published):
            with suppress(FileNotFoundError):  # the driver has removed its folder
                _run_units(path)
        time.sleep(_POLL_S)


def _run_units(path: Path) -> None:
    """Run published units that nobody has claimed, until the driver removes them."""
    assignment = load_work(path)
    output = _output_of(assignment)
    if not (output.is_dir() and output.samefile(path.parents[2])):
        raise StorageError(
            f"{path.parents[2]}: the pipeline writes {output}, which is another folder on this "
            "machine, or missing; mount it at the same path on all machines"
        )

    step = assignment.step
    _say(f"working on {step.logs.parents[1].name}, pass {step.logs.name}")
    # in any order, so that many workers do not ask for the same files
    waiting = random.sample(assignment.units, len(assignment.units))

    while path.exists():
        for unit in waiting:
            claim = Holder(path.with_name(f"{unit}.claim"))
            if not step.has_result(unit) and claim.create():
                with claim.renewed():
                    if not step.has_result(unit):  # another worker may have just finished it
                        step(unit)

        time.sleep(_POLL_S)
        waiting = [unit for unit in waiting if not step.has_result(unit)]


def _watch(output: Path, driver: Mapping[str, Any] | None, wait_s: float, folder: Path) -> None:
    """End this process without a driver; start it again in `folder` when another driver begins."""
    holder = Holder(output / HOLDER)
    published = output / _FOLDER
    patience = _HANDOVER_S if driver is None and published.is_dir() else wait_s
    seen_at = time.monotonic()

    with suppress(FileNotFoundError):
        while read_json(holder.path) == driver:
            if driver is not None and not holder.has_died():
                seen_at = time.monotonic()
            elif driver is None and published.is_dir():
                _say(f"{output}: the pipeline has ended")
            else:
                what = "no pipeline has started" if driver is None else "its process has died"
                _say(
                    f"{output}: {what}: start a pipeline with this output and "
                    f"executor.name=external; this worker waits {wait_s:g} s for it"
                )

            if time.monotonic() - seen_at > patience:
                os._exit(0 if published.is_dir() else StorageError.exit_code)
            time.sleep(_POLL_S)

    # this process goes on, so nobody else could tell that its unit has been given up
    for path in published.glob("*/*.claim"):
        if read_json(path) == identify_process():
            path.unlink(missing_ok=True)
    restart_program(folder)


@cache
def _say(text: str) -> None:
    """Print a line once."""
    sys.stdout.write(f"{wrap_log(text)}\n")
    sys.stdout.flush()
