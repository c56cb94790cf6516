"""Show a run on a terminal: progress and time left, then a table of kept and dropped data."""

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

from clozeline.command import LOG_COLUMNS, Detail, wrap_log
from clozeline.errors import message_text, plural
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.stages import Stage, StageSummary
from clozeline.pipeline.execution.unit_record import RECORDS, Counts, UnitRecord, add_counts
from clozeline.repair import explain
from clozeline.reporting import Reporting
from clozeline.run_status import StatusFile
from clozeline.terminal import Terminal, duration, size_text, time_left

_SECONDS_PER_MINUTE: Final = 60.0
_BAR_WIDTH: Final = 8
_INTERVAL_S: Final = 1.0


class Progress:
    """Progress of one run on stderr.

    Args:
        detail: `quiet` only errors, `usual` a line a minute, `verbose` a line whenever units
            finish.
        clock: seconds.
    """

    def __init__(
        self, detail: Detail = "usual", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.console: Console = Terminal(stderr=True, quiet=detail == "quiet")
        self._status: StatusFile | None = None
        self._reports = Reporting("the run continues without it")
        self._detail = detail
        self._clock = clock

    @contextmanager
    def recorded(self, output: Path) -> Iterator[None]:
        """Keep status.json in the output during the block, and write there how the block ended."""
        with self._reports("status.json"):
            self._status = StatusFile(output)
        self.record("running")

        try:
            yield
        except KeyboardInterrupt:
            error = "interrupted: the same command continues the run"
            self.record("stopped", error=error, estimated_end=None)
            raise
        except Exception as failure:
            code, message = explain(failure)
            error = message_text(message or f"{type(failure).__name__}: {failure}")
            self.record("failed", error=error, exit_code=code, estimated_end=None)
            raise
        self.record("done", estimated_end=None, exit_code=0)

    def record(self, state: str, **fields: object) -> None:
        """Write the state of the run into status.json, with what is known of the pass that runs."""
        if self._status is not None:
            with self._reports("status.json"):
                self._status.write(state, **fields)

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar for `total` units.

        Call the yielded function with the number of finished units.
        """
        if self.console.is_terminal and self._detail == "usual":
            name = TextColumn("{task.description:<24.24}")
            columns = (name, BarColumn(_BAR_WIDTH), MofNCompleteColumn(), TimeRemainingColumn())
            with RichProgress(*columns, console=self.console, transient=True) as live:
                task = live.add_task(title, total=total)
                yield lambda done: live.update(task, completed=done)
        else:
            self.console.print(f"{title}: {plural(total, 'unit')}", highlight=False)
            yield self._lines(title, total)

    def _lines(self, title: str, total: int) -> Callable[[int], None]:
        """Return a function that prints finished units, at most once a minute unless verbose."""
        started = last = self._clock()
        before = 0

        def show(done: int) -> None:
            nonlocal last, before
            now = self._clock()
            if self._detail == "verbose":
                due = done > before
            else:
                due = now - last >= _SECONDS_PER_MINUTE and done < total
            if due:
                last = now
                before = done
                left = f", {time_left((total - done) * (now - started) / done)}" if done else ""
                self.report(f"{title}: {done:,}/{total:,} units{left}")

        return show

    def report(self, message: str) -> None:
        """Show a message during the run, in lines of at most 80 columns."""
        self.console.print(wrap_log(message), highlight=False, soft_wrap=True, markup=False)


class RunningPass:
    """The units of a pass that run now, known from the records that they write."""

    def __init__(
        self,
        stage: Stage[Any, Any],
        work: str,
        units: Iterable[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.records: dict[str, UnitRecord | None] = {}
        """records by unit; None for one that cannot be read"""
        self._stage = stage
        self._work = work
        self._waiting = {UnitRecord.path(stage.folder, work, unit).name: unit for unit in units}
        self._clock = clock
        self._started = clock()
        self._due = -math.inf
        self._counts: Counts = {}
        self._bytes = 0

    def look(self, *, now: bool = False) -> bool:
        """Read the records of finished units, once a second or `now`; return whether it did."""
        if not now and self._clock() < self._due:
            return False
        folder = self._stage.folder / RECORDS / self._work
        with suppress(FileNotFoundError):
            for name in self._waiting.keys() & os.listdir(folder):  # noqa: PTH208 (many)
                unit = self._waiting.pop(name)
                record = self.records[unit] = UnitRecord.read(folder / name)
                if record is not None:
                    add_counts(self._counts, record.counts)
                    self._bytes += record.total_bytes
        self._due = self._clock() + _INTERVAL_S
        return True

    def describe(self) -> dict[str, object]:
        """Return the fields of status.json: position, speed, share of what was dropped, end."""
        done = len(self.records)
        left = len(self._waiting)
        seconds = max(self._clock() - self._started, 1e-9)
        row = StageRow.of(self._counts, self._stage.equations, "", "")
        dropped: Counter[str] = Counter()
        for unit, reasons in row.dropped:
            dropped[unit] += sum(reasons.values())
        totals = {unit: count for unit, count in row.totals.items() if count}
        return {
            "stage": self._stage.name,
            "pass": self._work,
            "units_done": done,
            "units_left": left,
            "read_per_second": {f"{unit}s": count / seconds for unit, count in totals.items()},
            "written_bytes_per_second": self._bytes / seconds,
            "dropped_shares": {f"{unit}s": dropped[unit] / totals[unit] for unit in totals},
            "estimated_end": time.time() + left * seconds / done if done else None,
        }


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], remarks: Iterable[tuple[str, str]]
) -> Group:
    """Return a table of stages, whose long cells are wrapped, with remarks by stage below."""
    table = Table(*header, box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 0, 0, 1))
    table.pad_edge = False
    for row in rows:
        table.add_row(*map(Text, row))
    for number, column in enumerate(table.columns):
        column.overflow = "fold"
        column.justify = "right" if number else "left"
    return Group(table, *(Text(wrap_log(f"{stage}: {remark}")) for stage, remark in remarks))


def accounting_table(summaries: Sequence[StageSummary]) -> Group:
    """Return the amounts of each stage and its sets, and below why something was dropped."""
    rows = list[tuple[str, ...]]()
    for summary in summaries:
        name = f"{summary.name} (earlier)" if summary.skipped else summary.name
        rows += summary.row.amounts(name, duration(summary.seconds), size_text(summary.bytes))
    remarks = [(each.name, remark) for each in summaries for remark in each.row.remarks()]
    return table(("stage", "in", "out", "cut", "time", "bytes"), rows, remarks)


def print_table(summaries: Sequence[StageSummary]) -> None:
    """Print the accounting table to standard output."""
    terminal = Terminal()
    title = Text("What happened to every document")
    terminal.print(
        Group(title, accounting_table(summaries)), width=min(LOG_COLUMNS, terminal.width)
    )
