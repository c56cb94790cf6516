"""Show a run on a terminal: progress and time left, then a table of kept and dropped data."""

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as RichProgress

from clozeline.command import LOG_COLUMNS, Detail, wrap_log
from clozeline.errors import message_text, plural
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.stages import Stage, StageSummary
from clozeline.pipeline.execution.unit_record import Counts, UnitRecord, add_counts
from clozeline.repair import explain
from clozeline.reporting import Reporting
from clozeline.run_status import StatusFile
from clozeline.terminal import Terminal, duration, pad_text, size_text, time_left, wrap_text

_SECONDS_PER_MINUTE: Final = 60.0
_BAR_WIDTH: Final = 8
_INDENT: Final = "    "
_LEAST_TABLE_WIDTH: Final = 40
"""Fewest columns of a table; a narrower terminal wraps its lines."""
_LEAST_NAME_WIDTH: Final = 10
"""Fewest columns for the name of a stage."""
_INTERVAL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A stage in the table of `--plan`: how many of its units are kept, and why others are not."""

    stage: str
    units: int
    kept: int
    sure: int
    """units that must run"""
    most: int
    """units that must run, or may have to"""
    reasons: tuple[str, ...]
    cpu_seconds: float
    is_whole: bool = True
    """false if the units depend on files that do not exist yet"""

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the row, without the name of the stage."""
        if not self.is_whole and not self.most:
            return "", "", "unknown yet", duration(self.cpu_seconds)
        to_make = f"{self.sure:,}" if self.sure == self.most else f"{self.sure:,} to {self.most:,}"
        time = duration(self.cpu_seconds) if self.reasons else ""
        return f"{self.units:,}", f"{self.kept:,}", to_make, time


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
        self._record("running")

        try:
            yield
        except KeyboardInterrupt:
            self._record(
                "stopped",
                error="interrupted: the same command continues the run",
                estimated_end=None,
            )
            raise
        except Exception as error:
            code, message = explain(error)
            failure = message_text(message or f"{type(error).__name__}: {error}")
            self._record("failed", error=failure, exit_code=code, estimated_end=None)
            raise
        self._record("done", estimated_end=None, exit_code=0)

    def _record(self, state: str, **fields: object) -> None:
        if self._status is not None:
            with self._reports("status.json"):
                self._status.write(state, **fields)

    def record_pass(self, fields: Mapping[str, object]) -> None:
        """Write what is known of the pass that runs into status.json, at most once a second."""
        if self._status is not None:
            with self._reports("status.json"):
                self._status.renew(**fields)

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar for `total` units.

        Call the yielded function with the number of finished units.
        """
        if not total:
            yield lambda done: None
        elif self.console.is_terminal and self._detail == "usual":
            texts = TextColumn("{task.description:<24.24}"), TextColumn("{task.fields[speed]}")
            columns = (texts[0], BarColumn(_BAR_WIDTH), MofNCompleteColumn(), texts[1])
            started = self._clock()
            with RichProgress(*columns, console=self.console, transient=True) as live:
                task = live.add_task(title, total=total, speed="")
                yield lambda done: live.update(
                    task, completed=done, speed=format_speed(done, total, self._clock() - started)
                )
                live.update(task, completed=total)
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
            due = (
                done > before
                if self._detail == "verbose"
                else now - last >= _SECONDS_PER_MINUTE and done < total
            )
            if due:
                last = now
                before = done
                line = (
                    f"{title}: {done:,}/{total:,} units  {format_speed(done, total, now - started)}"
                )
                self.console.print(line.rstrip(), highlight=False)

        return show

    def report(self, message: str) -> None:
        """Show a message during the run, in lines of at most 80 columns."""
        self.console.print(wrap_log(message), highlight=False, soft_wrap=True, markup=False)

    def show_plan(self, title: str, rows: Sequence[PlanRow]) -> None:
        """Show which units a run keeps, and which it makes."""
        for line in plan_lines(title, rows):
            self.console.print(line, highlight=False, soft_wrap=True, markup=False)

    def waiting(self) -> None:
        """Report that another run holds the output."""
        self.report("another run is writing this output: waiting for it")

    def stage_done(self, name: str, seconds: float, *, skipped: bool) -> None:
        """Report that a stage is complete."""
        self.report(f"{name}: already complete" if skipped else f"{name}: done in {seconds:.1f} s")


def format_speed(done: int, total: int, seconds: float) -> str:
    """Return the units per second and the time left; "" before the first unit is done."""
    if not done or seconds <= 0:
        return ""
    rate = done / seconds
    shown = f"{rate:,.1f} units/s" if rate >= 1 else f"{rate * _SECONDS_PER_MINUTE:,.1f} units/min"
    return shown + (f"  {time_left((total - done) / rate)}" if done < total else "")


class RunningPass:
    """The units of a pass that run now, counted from the records that they write.

    Args:
        stage: its equations say what a unit reads and drops.
        folder: records of the pass.
        names: names of the records that the units will write.
        title: name of the pass.
    """

    def __init__(
        self,
        stage: Stage[Any, Any],
        folder: Path,
        names: Collection[str],
        title: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stage = stage
        self._folder = folder
        self._waiting = set(names)
        self._title = title
        self._total = len(names)
        self._clock = clock
        self._started = clock()
        self._due = -math.inf
        self._counts: Counts = {}
        self._bytes = 0

    def count_done(self, *, now: bool = False) -> int:
        """Return the number of units with a record.

        The folder is listed once a second, or `now`.
        """
        if self._waiting and (now or self._clock() >= self._due):
            with suppress(FileNotFoundError):
                done = self._waiting.intersection(os.listdir(self._folder))  # noqa: PTH208 (many)
                self._waiting -= done
                for record in filter(None, (UnitRecord.read(self._folder / name) for name in done)):
                    add_counts(self._counts, record.counts)
                    self._bytes += sum(output["bytes"] for output in record.outputs.values())
            self._due = self._clock() + _INTERVAL_S
        return self._total - len(self._waiting)

    def describe(self) -> dict[str, object]:
        """Return the fields of status.json: position, speed, share of what was dropped, end."""
        left = len(self._waiting)
        done = self._total - left
        seconds = max(self._clock() - self._started, 1e-9)
        row = StageRow.of(self._counts, self._stage.equations, "", "")
        dropped: Counter[str] = Counter()
        for unit, reasons in row.dropped:
            dropped[unit] += sum(reasons.values())
        totals = {unit: count for unit, count in row.totals.items() if count}
        return {
            "stage": self._stage.name,
            "pass": self._title,
            "units_done": done,
            "units_left": left,
            "read_per_second": {f"{unit}s": count / seconds for unit, count in totals.items()},
            "written_bytes_per_second": self._bytes / seconds,
            "dropped_shares": {f"{unit}s": dropped[unit] / totals[unit] for unit in totals},
            "estimated_end": time.time() + left * seconds / done if done else None,
        }


def plan_lines(title: str, rows: Sequence[PlanRow], columns: int = LOG_COLUMNS) -> list[str]:
    """Return the table of `--plan`: units of each stage, and below why some must run."""
    cells = [("units", "kept", "to make", "CPU time"), *(row.cells() for row in rows)]
    widths = _column_widths(cells, columns)
    first = columns - sum(widths) - 2 * len(widths)
    lines = [title, *_align("stage", cells[0], first, widths), "─" * columns]
    for row, amounts in zip(rows, cells[1:], strict=True):
        lines += _align(row.stage, amounts, first, widths)
        for reason in row.reasons:
            lines += wrap_text(reason, columns, _INDENT, 2 * _INDENT)
    return lines


def accounting_lines(summaries: Sequence[StageSummary], columns: int = LOG_COLUMNS) -> list[str]:
    """Return the table in lines that fit the terminal's `columns`, which are at least 40.

    A stage shows its input, output, removed characters, time and bytes. Below are the drop reasons,
    the most frequent first, and then the rows of its sets. A name that is too long for its column
    has its own lines, and a long amount is wrapped.
    """
    rows: list[tuple[str, StageRow, str, str]] = []

    for summary in summaries:
        name = f"{summary.name} (earlier)" if summary.skipped else summary.name
        rows.append((name, summary.row, duration(summary.seconds), size_text(summary.bytes)))
        rows += [(f"  {label}", part, "", "") for label, part in summary.row.parts]

    amounts_of_rows = [
        (row.amount_in, row.amount_out, row.cut_share, *cost) for _, row, *cost in rows
    ]
    cells = [("in", "out", "cut", "time", "bytes"), *amounts_of_rows]
    columns = max(_LEAST_TABLE_WIDTH, columns)
    widths = _column_widths(cells, columns)
    first = columns - sum(widths) - 2 * len(widths)

    lines = [*_align("stage", cells[0], first, widths), "─" * columns]

    for (name, row, *_), amounts in zip(rows, cells[1:], strict=True):
        lines += _align(name, amounts, first, widths)
        for noun, reasons in row.iter_reasons():
            # no-break spaces keep each count next to its reason
            together = ", ".join(reason.replace(" ", "\xa0") for reason in reasons)
            text = f"dropped ({noun}s): {together}" if noun else f"noticed: {together}"
            lines += [
                line.replace("\xa0", " ") for line in wrap_text(text, columns, _INDENT, 2 * _INDENT)
            ]
        if any(row.cut.values()):
            lines += wrap_text(_describe_cut(row), columns, _INDENT, 2 * _INDENT)
        for note in row.notes:
            lines += wrap_text(note, columns, _INDENT, 2 * _INDENT)

    return lines


def _describe_cut(row: StageRow) -> str:
    """Return the number of characters that each step removed, the largest first."""
    steps = sorted((-size, name) for name, size in row.cut.items() if size)
    named = ", ".join(f"{-size:,} {name}" for size, name in steps)
    return f"cut: {sum(row.cut.values()):,} of {row.characters or 0:,} characters: {named}"


def _column_widths(rows: Sequence[Sequence[str]], columns: int) -> list[int]:
    """Return the widths of the columns, the widest reduced until the names fit next to them."""
    widths = [
        max(cell_len(line) for cell in column for line in cell.split("\n"))
        for column in zip(*rows, strict=True)
    ]
    available = columns - _LEAST_NAME_WIDTH - 2 * len(widths)
    widest = next(
        (
            limit
            for limit in range(available, 2, -1)
            if sum(min(width, limit) for width in widths) <= available
        ),
        2,
    )

    return [min(width, widest) for width in widths]


def _align(name: str, cells: Sequence[str], first: int, widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of a table row: its name in `first` columns, then its wrapped cells."""
    if cell_len(name) > first:
        yield from wrap_text(name, first + sum(widths) + 2 * len(widths))
        name = ""

    wrapped = []
    for cell, width in zip(cells, widths, strict=True):
        lines = [wrap_text(line, width) for line in cell.split("\n")]
        wrapped.append(list(chain.from_iterable(lines)))

    for parts in zip_longest(*wrapped, fillvalue=""):
        shown = [
            pad_text(part, width, right=True) for part, width in zip(parts, widths, strict=True)
        ]
        yield "  ".join([pad_text(name, first), *shown]).rstrip()
        name = ""


def print_table(summaries: Sequence[StageSummary]) -> None:
    """Print the accounting table to standard output."""
    terminal = Terminal()
    columns = min(LOG_COLUMNS, terminal.width) if terminal.is_terminal else LOG_COLUMNS
    text = "\n".join(["What happened to every document", *accounting_lines(summaries, columns)])
    terminal.print(text, highlight=False, markup=False, soft_wrap=True)
