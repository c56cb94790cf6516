"""Progress of a run: a live bar, or lines, and units done by listings.

Then the table of what each stage did.
"""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.progress import Progress, RunningPass


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        (
            "usual",
            [
                "clean: 1,000 units",
                "clean: 20/1,000 units, 0:49:00 left",
                "clean: 40/1,000 units, 0:48:00 left",
            ],
        ),
        ("verbose", 15),
        ("quiet", 0),
    ],
)
def test_without_a_terminal_a_minute_has_one_line_with_rate_and_time_left(detail, expected):
    """10 units in 30 seconds: 20 a minute of 1,000, so that after a minute 49 are left."""
    shown = Progress(detail, clock := Clock())
    shown.console = Console(file=io.StringIO(), width=80, quiet=detail == "quiet")
    with shown.bar("clean", 1000) as done:
        for units in range(1, 14):
            clock.now = 100.0 + 10 * units
            done(units * 10 // 3)
        clock.now = 900.0
        done(1000)
    lines = shown.console.file.getvalue().splitlines()

    assert expected in (lines, len(lines))


def test_a_thousand_looks_a_second_are_one_listing(tmp_path):
    clock = Clock()
    folder = tmp_path / "records" / "main"
    names = [f"{unit:06d}" for unit in range(500)]
    running = RunningPass(SimpleNamespace(folder=tmp_path), "main", names, clock)
    running.look()  # there is no folder before the first record
    folder.mkdir(parents=True)

    for unit in range(500):
        (folder / f"{unit:06d}.json").touch()
        (folder / f"score-{unit:06d}.json").touch()  # of another pass
        clock.now += 0.01
        running.look()
        assert len(running.records) == (unit + 1) // 100 * 100


def test_reasons_stand_group_by_group_the_most_frequent_first():
    dropped = (("", {"a": 1, "b": 20, "zero": 0}), ("row", {}), ("token", {"c": 3000, "d": 1}))
    row = StageRow("9 samples", dropped=dropped, characters=40, cut={"a": 1, "b": 2})
    remarks = [*row.remarks()]

    assert remarks == [
        "noticed: 20 b, 1 a",
        "dropped (tokens): 3,000 c, 1 d",
        "cut: 3 of 40 characters: 2 b, 1 a",
    ]
