"""Show a run on a terminal: progress and time left, then a table of kept and dropped data."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from clozeline.command import Detail, wrap_log
from clozeline.errors import message_text
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.report_page import accounting, source_table
from clozeline.pipeline.execution.stages import Stage, StageSummary
from clozeline.pipeline.execution.unit_record import (
    MARKER_ENDING,
    RECORDS,
    Counts,
    UnitRecord,
    add_counts,
)
from clozeline.repair import explain
from clozeline.report.terminal_view import print_view
from clozeline.report.views import Part, Section
from clozeline.reporting import Reporting
from clozeline.run_status import StatusFile
from clozeline.terminal import Terminal, time_left

_LINE_INTERVAL_S: Final = 60.0
_INTERVAL_S: Final = 1.0


class Progress:
    """Progress of one run on stderr.

    Args:
        detail: `quiet` only errors, `usual` a line a minute, `verbose` a line whenever units
            finish.
    """

    def __init__(self, detail: Detail = "usual") -> None:
        self.console: Console = Terminal(stderr=True, quiet=detail == "quiet")
        self.expected: dict[str, float] = {}
        """seconds that each stage to come is expected to take"""
        self._before = self._own = self._started = self._begun = 0.0
        self._status: StatusFile | None = None
        self._reports = Reporting("the run continues without it")
        self._detail = detail

    @contextmanager
    def recorded(self, output: Path) -> Iterator[None]:
        """Keep status.json in the output during the block, and write there how the block ended."""
        status = self._status = StatusFile(output, partial(self._reports, "status.json"))
        status.write("running", stage="plan")

        with status.renewed():
            try:
                yield
            except KeyboardInterrupt:
                error = "interrupted: the same command continues the run"
                status.write("stopped", error=error, estimated_end=None)
                raise
            except BaseException as failure:
                code, message = explain(failure)
                error = message_text(message or f"{type(failure).__name__}: {failure}")
                status.write("failed", error=error, exit_code=code, estimated_end=None)
                raise
            status.write("done", estimated_end=None, exit_code=0)

    def note(self, **fields: Any) -> None:
        """Add fields to status.json, see `StatusFile.note`."""
        if self._status is not None:
            self._status.note(**fields)

    def begin(self, stage: str) -> None:
        """Begin a stage; the clock of the run starts with the first one that has work."""
        self._begun = time.monotonic()
        self._before += self._own
        self._own = self.expected.pop(stage, 0.0)
        if not self._before:
            self._started = self._begun
        self.note(stage=stage, **{"pass": None}, units_done=None, units_left=None)

    def _seconds_left(self, running: RunningPass) -> float:
        return seconds_left(
            self._before,
            self._own,
            sum(self.expected.values()),
            self._begun - self._started,
            running.started - self._started,
            time.monotonic() - self._started,
            running.share,
        )

    @contextmanager
    def follow(self, running: RunningPass) -> Iterator[Callable[..., None]]:
        """Show how many units of a pass have finished; call the yielded function repeatedly.

        Its arguments are what an executor knows of the pass, see `RunningPass.seen`.
        """
        before = {} if self._status is None else self._status.totals

        def note(*, moved: bool) -> None:
            totals = add_counts(deepcopy(before), running.totals)
            running.left = self._seconds_left(running) if self._own else None
            self.note(moved=moved, totals=totals, **running.describe())

        is_live = self.console.is_terminal and self._detail == "usual"
        interval_s = 0.0 if self._detail == "verbose" else _LINE_INTERVAL_S
        shown_at = time.monotonic()
        shown = 0

        with self.console.status("") if is_live else nullcontext() as live:

            def tick(*, now: bool = False, **seen: int) -> None:
                nonlocal shown_at, shown
                running.seen |= seen
                done = len(running.records)
                if not running.look(now=now):
                    return
                note(moved=len(running.records) > done)
                if live is not None:
                    live.update(running.text)
                elif len(running.records) > shown and time.monotonic() - shown_at >= interval_s:
                    shown_at = time.monotonic()
                    shown = len(running.records)
                    self.report(running.text)

            note(moved=True)
            if live is None:
                self.report(running.text)
            yield tick
            tick(now=True)

    def report(self, message: str) -> None:
        """Show a message during the run, in lines of at most 80 columns."""
        self.console.print(wrap_log(message), highlight=False, soft_wrap=True, markup=False)


class RunningPass:
    """The units of a pass that run now, known from the records that they write."""

    def __init__(self, stage: Stage[Any, Any], work: str, units: Iterable[str]) -> None:
        self.records: dict[str, UnitRecord | None] = {}
        """records by unit; None for one that cannot be read"""
        self.seen: dict[str, int] = {}
        """what the executor knows: `workers` seen in the last minute, `units_retried`, and
        `worker_deaths`"""
        self.started = time.monotonic()
        self.left: float | None = None
        """expected seconds until the run ends"""
        self._stage = stage
        self._work = work
        self._running = 0
        self._waiting = {UnitRecord.path(stage.folder, work, unit).name: unit for unit in units}
        self._due = self.started
        self._counts: Counts = {}
        self._bytes = 0

    def look(self, *, now: bool = False) -> bool:
        """Read the records of finished units, once a second or `now`; return whether it did."""
        if not now and time.monotonic() < self._due:
            return False
        folder = self._stage.folder / RECORDS / self._work
        with suppress(FileNotFoundError):
            names = os.listdir(folder)  # noqa: PTH208 (many)
            for name in self._waiting.keys() & names:
                unit = self._waiting.pop(name)
                record = self.records[unit] = UnitRecord.read(folder / name)
                if record is not None:
                    add_counts(self._counts, record.counts)
                    self._bytes += record.total_bytes
            self._running = sum(name.endswith(MARKER_ENDING) for name in names)
        self._due = time.monotonic() + _INTERVAL_S
        return True

    @property
    def _seconds(self) -> float:
        return max(time.monotonic() - self.started, 1e-9)

    @property
    def share(self) -> float | None:
        """Share of the bytes that is done, half of each running unit too; None before the first."""
        if not self.records:
            return None
        weigh = self._stage.plan.weigh
        done = weigh(self.records)
        half = 1 + self._running / 2 / len(self.records)
        return min(1.0, done * half / (done + weigh(self._waiting.values())))

    @property
    def text(self) -> str:
        """Finished units, and the time left of the run."""
        part = "" if self._work == "main" else f" · {self._work}"
        done = len(self.records)
        left = "" if self.left is None else f", {time_left(self.left)}"
        return f"{self._stage.name}{part}: {done:,}/{done + len(self._waiting):,} units{left}"

    @property
    def _row(self) -> StageRow:
        return StageRow.of(self._counts, self._stage.equations, "", "")

    @property
    def totals(self) -> dict[str, Any]:
        """What the pass has done, by stage: the counters of metrics.prom."""
        row = self._row
        totals = {
            "units": Counter(record.status for record in self.records.values() if record),
            "documents": row.totals.get("document", 0),
            "written_bytes": self._bytes,
            "rejected": {unit: +Counter(reasons) for unit, reasons in row.dropped},
            "units_retried": self.seen.get("units_retried", 0),
            "worker_deaths": self.seen.get("worker_deaths", 0),
        }
        return {name: {self._stage.name: value} for name, value in totals.items()}

    def describe(self) -> dict[str, object]:
        """Return the fields of status.json: position, speed, share of what was dropped, end."""
        seconds = self._seconds
        row = self._row
        totals = {unit: count for unit, count in row.totals.items() if count}
        return {
            "stage": self._stage.name,
            "pass": self._work,
            "units_done": len(self.records),
            "units_left": len(self._waiting),
            "workers": self.seen.get("workers"),
            "read_per_second": {f"{unit}s": count / seconds for unit, count in totals.items()},
            "written_bytes_per_second": self._bytes / seconds,
            "dropped_shares": {f"{unit}s": share for unit, share in row.shares().items()},
            "estimated_end": None if self.left is None else time.time() + self.left,
        }


def seconds_left(
    before: float,
    own: float,
    after: float,
    begun: float,
    pass_begun: float,
    now: float,
    share: float | None,
) -> float:
    """Return the seconds left of a run, at its pace so far.

    Args:
        before: seconds that the earlier stages were expected to take.
        own: those of this stage.
        after: those of the stages to come.
        begun: seconds of the run at which the stage began.
        pass_begun: those at which its pass began.
        now: those until now.
        share: of the pass that is done; None: unknown, as much as the time tells.
    """
    pace = begun / before if before else 1.0
    done = min(((now if share is None else pass_begun) - begun) / pace, own)
    done += before + (share or 0.0) * (own - done)
    return (before + own + after - done) * (now / done if done else pace)


def print_table(summaries: Sequence[StageSummary]) -> None:
    """Print the amounts of each stage and its sets, and below why something was dropped."""
    amounts = accounting(
        (f"{each.name}{' (earlier)' * each.skipped}", each.row, each.seconds, each.bytes)
        for each in summaries
    )
    remarks = [f"{each.name}: {remark}" for each in summaries for remark in each.row.remarks()]
    parts: list[Part] = [amounts, *remarks, source_table(each.row for each in summaries)]
    print_view(Section("What happened to every document", parts), Terminal())
