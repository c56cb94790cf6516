"""Show the progress of a run with its rate and the time left: a live bar on a terminal, plain lines elsewhere."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as RichProgress

from clozeline.command import Detail, wrap_log
from clozeline.pipeline.execution.inputs import join_names
from clozeline.pipeline.execution.unit_record import UnitRecord
from clozeline.report.axis_units import time_left
from clozeline.terminal import Terminal

_MINUTE: Final = 60.0
_BAR: Final = 8


class Progress:
    """Progress of one run on stderr.

    Args:
        detail: `quiet` only errors, `usual` a line a minute, `verbose` a line whenever units finish.
        clock: seconds.
    """

    def __init__(self, detail: Detail = "usual", clock: Callable[[], float] = time.monotonic) -> None:
        self.console: Console = Terminal(stderr=True, quiet=detail == "quiet")
        self._detail, self._clock = detail, clock

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show `total` units under a title; the yielded function takes the number done."""
        if not total:
            yield lambda done: None
        elif self.console.is_terminal and self._detail == "usual":
            texts = TextColumn("{task.description:<24.24}"), TextColumn("{task.fields[speed]}")
            columns = (texts[0], BarColumn(_BAR), MofNCompleteColumn(), texts[1])
            started = self._clock()
            with RichProgress(*columns, console=self.console, transient=True) as live:
                task = live.add_task(title, total=total, speed="")
                yield lambda done: live.update(
                    task, completed=done, speed=speed_text(done, total, self._clock() - started)
                )
                live.update(task, completed=total)
        else:
            self.console.print(f"{title}: {total:,} unit{'s' if total > 1 else ''}", highlight=False)
            yield self._lines(title, total)

    def _lines(self, title: str, total: int) -> Callable[[int], None]:
        """Return a function that prints a line about units done, at most one a minute unless verbose."""
        started = last = self._clock()
        before = 0

        def show(done: int) -> None:
            nonlocal last, before
            now = self._clock()
            due = done > before if self._detail == "verbose" else now - last >= _MINUTE and done < total
            if due:
                last, before = now, done
                line = f"{title}: {done:,}/{total:,} units  {speed_text(done, total, now - started)}"
                self.console.print(line.rstrip(), highlight=False)

        return show

    def report_removal(self, path: Path) -> None:
        """Report that a file made by a user is removed, because its subject is rebuilt."""
        self.report(f"{path} is removed: what it speaks of is made again")

    def report(self, message: str) -> None:
        """Show a message that does not end the run, in lines of at most 80 columns."""
        self.console.print(wrap_log(message), highlight=False, soft_wrap=True)

    def report_skips(self, files: Sequence[Path]) -> None:
        """Say which files of input folders are skipped, the first ones by name."""
        self.report(f"input: {len(files):,} files of no known format skipped: {join_names(files)}")

    def waiting(self) -> None:
        """Say that another run holds the output."""
        self.report("another run is writing this output: waiting for it")

    def stage_done(self, name: str, seconds: float, *, skipped: bool) -> None:
        """Say that a stage is complete."""
        self.report(f"{name}: already complete" if skipped else f"{name}: done in {seconds:.1f} s")


def speed_text(done: int, total: int, seconds: float) -> str:
    """Return the rate of units and the time left at this rate; "" before the first unit is done."""
    if not done or seconds <= 0:
        return ""
    rate = done / seconds
    shown = f"{rate:,.1f} units/s" if rate >= 1 else f"{rate * _MINUTE:,.1f} units/min"
    return shown + (f"  {time_left((total - done) / rate)}" if done < total else "")


_INTERVAL_S: Final = 1.0
# A listing may take at most this share of the time, however many names the folder holds.
_SHARE: Final = 0.02


class PendingUnits:
    """Units of a pass whose records have not been seen yet.

    Args:
        folder: of the stage.
        pass_name: of the pass.
        units: those that run now, without records at the start.
        clock: seconds.
    """

    def __init__(
        self, folder: Path, pass_name: str, units: Sequence[int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        paths = [UnitRecord.path(folder, pass_name, unit) for unit in units]
        self._folder, self._names = folder / "records", {path.name for path in paths}
        self._total, self._clock = len(paths), clock
        self._next = -float("inf")

    def count_done(self) -> int:
        """Return the number of units with a record, as of the last listing."""
        start = self._clock()
        if self._names and start >= self._next:
            with suppress(FileNotFoundError), os.scandir(self._folder) as entries:  # names alone: no stat
                self._names.difference_update(entry.name for entry in entries)
            end = self._clock()
            self._next = end + max(_INTERVAL_S, (end - start) / _SHARE)
        return self._total - len(self._names)
