"""Progress of a run: a live bar, or lines, and units done by listings.

Then the table of what each stage did.
"""

import io

import pytest
from rich.console import Console

from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.progress import Progress


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


def test_reasons_stand_group_by_group_the_most_frequent_first():
    dropped = (("", {"a": 1, "b": 20, "zero": 0}), ("row", {}), ("token", {"c": 3000, "d": 1}))
    row = StageRow("9 samples", dropped=dropped, characters=40, cut={"a": 1, "b": 2})
    remarks = [*row.remarks()]

    assert remarks == [
        "noticed: 20 b, 1 a",
        "dropped (tokens): 3,000 c, 1 d",
        "cut: 3 of 40 characters: 2 b, 1 a",
    ]
