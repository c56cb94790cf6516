"""Progress of a run: a live bar, or lines, and units done by listings."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from clozeline.pipeline.execution.progress import Detail, Progress, done_counter, speed_text


def progress(**options: bool) -> tuple[Progress, io.StringIO]:
    file = io.StringIO()
    found = Progress()
    found.console = Console(file=file, width=100, **options)  # type: ignore[arg-type]
    return found, file


def test_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    Progress().stage_done("clean", 1.24, skipped=False)
    assert capsys.readouterr() == ("", "clean: done in 1.2 s\n")


def test_without_a_terminal_each_step_is_a_plain_line() -> None:
    found, file = progress()
    for total in (0, 1, 2):
        with found.bar("clean", total) as done:
            done(total)
    found.waiting()
    found.stage_done("dedup", 3.0, skipped=True)
    assert file.getvalue().splitlines() == [
        "clean: 1 unit",
        "clean: 2 units",
        "another run is writing this output: waiting for it",
        "dedup: already complete",
    ]


def test_a_bar_is_full_at_the_end_and_then_gone() -> None:
    found, file = progress(force_terminal=True)
    with found.bar("clean", 7) as done:
        done(3)
    assert "7/7" in file.getvalue()
    assert file.getvalue().endswith("\x1b[2K"), "the line is erased"


class Clock:
    """Seconds that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def timed(detail: Detail, **options: bool) -> tuple[Progress, io.StringIO, Clock]:
    clock, file = Clock(), io.StringIO()
    found = Progress(detail, clock)
    found.console = Console(file=file, width=80, quiet=detail == "quiet", **options)  # type: ignore[arg-type]
    return found, file, clock


def test_without_a_terminal_a_minute_has_one_line_with_rate_and_time_left() -> None:
    """10 units in 30 seconds each: 20 a minute of 1,000, so that after a minute 49 are left."""
    found, file, clock = timed("usual")
    with found.bar("clean", 1000) as done:
        for units in range(1, 14):
            clock.now = 100.0 + 10 * units
            done(units * 10 // 3)
        clock.now = 900.0
        done(1000)
    assert file.getvalue().splitlines() == [
        "clean: 1,000 units",
        "clean: 20/1,000 units  20.0 units/min  0:49:00 left",
        "clean: 40/1,000 units  20.0 units/min  0:48:00 left",
    ]


def test_verbose_has_a_line_for_each_change_and_quiet_none() -> None:
    for detail, lines in (("verbose", 3), ("quiet", 0)):
        found, file, clock = timed(detail)  # type: ignore[arg-type]
        with found.bar("dedup", 8) as done:
            for units in (4, 4, 8):
                clock.now += 1.0
                done(units)
        found.report("a warning")
        assert len(file.getvalue().splitlines()) == (lines + 1 if lines else 0)


def test_a_bar_has_the_rate_in_80_columns() -> None:
    found, file, clock = timed("usual", force_terminal=True)
    found.console.width = 200
    with found.bar("decontaminate · exact-survivors-of-all", 12_345) as done:
        clock.now += 3600.0
        done(120)
    assert "2.0 units/min" in file.getvalue()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", file.getvalue())
    assert "101:52:30 left" in shown
    assert max(len(line.rstrip()) for line in re.split(r"[\r\n]", shown)) <= 80


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        (0, 9, 5.0, ""),
        (30, 90, 10.0, "3.0 units/s  0:00:20 left"),
        (90, 90, 10.0, "9.0 units/s"),
        (1, 3, 120.0, "0.5 units/min  0:04:00 left"),
    ],
)
def test_the_rate_by_hand(done: int, total: int, seconds: float, text: str) -> None:
    assert speed_text(done, total, seconds) == text


def test_a_thousand_looks_a_second_are_one_listing(tmp_path: Path) -> None:
    clock = Clock()
    count = done_counter(tmp_path / "records", {f"{unit:06d}.json" for unit in range(500)}, clock)
    assert count() == 0, "there is no folder before the first record"
    (tmp_path / "records").mkdir()
    for unit in range(500):
        (tmp_path / "records" / f"{unit:06d}.json").touch()
        (tmp_path / "records" / f"score-{unit:06d}.json").touch()  # of another pass
        clock.now += 0.01
        assert count() == (unit + 1) // 100 * 100
