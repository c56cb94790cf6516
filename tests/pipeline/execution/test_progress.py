"""Progress of a run: a live bar, or lines, and units done by listings.

Then the table of what each stage did.
"""

import io
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.progress import Progress, RunningPass, accounting_table
from clozeline.pipeline.execution.stages import StageSummary


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def progress(detail="usual", **options):
    clock = Clock()
    file = io.StringIO()
    found = Progress(detail, clock)
    found.console = Console(file=file, width=80, quiet=detail == "quiet", **options)
    return found, file, clock


def test_without_a_terminal_each_step_is_a_plain_line():
    found, file, _ = progress()
    for total in (1, 2):
        with found.bar("clean", total) as done:
            done(total)

    assert file.getvalue().splitlines() == [
        "clean: 1 unit",
        "clean: 2 units",
    ]


def test_without_a_terminal_a_minute_has_one_line_with_rate_and_time_left():
    """10 units in 30 seconds: 20 a minute of 1,000, so that after a minute 49 are left."""
    found, file, clock = progress()

    with found.bar("clean", 1000) as done:
        for units in range(1, 14):
            clock.now = 100.0 + 10 * units
            done(units * 10 // 3)
        clock.now = 900.0
        done(1000)

    first, *lines = file.getvalue().splitlines()

    assert first == "clean: 1,000 units"

    assert lines == [
        "clean: 20/1,000 units, 0:49:00 left",
        "clean: 40/1,000 units, 0:48:00 left",
    ]


@pytest.mark.parametrize(("detail", "lines"), [("verbose", 4), ("quiet", 0)])
def test_verbose_has_a_line_for_each_change_and_quiet_none(detail, lines):
    found, file, clock = progress(detail)

    with found.bar("dedup", 8) as done:
        for units in (4, 4, 8):
            clock.now += 1.0
            done(units)

    found.report("a warning")

    assert len(file.getvalue().splitlines()) == lines


def test_a_thousand_looks_a_second_are_one_listing(tmp_path):
    clock = Clock()
    stage = SimpleNamespace(folder=tmp_path)
    folder = tmp_path / "records" / "main"
    running = RunningPass(stage, "main", [f"{unit:06d}" for unit in range(500)], clock)

    def count():
        running.look()
        return len(running.records)

    assert count() == 0, "there is no folder before the first record"

    folder.mkdir(parents=True)

    for unit in range(500):
        (folder / f"{unit:06d}.json").touch()
        (folder / f"score-{unit:06d}.json").touch()  # of another pass
        clock.now += 0.01
        assert count() == (unit + 1) // 100 * 100


def test_reasons_stand_group_by_group_the_most_frequent_first():
    row = StageRow(
        "9 samples",
        dropped=(
            ("", {"a": 1, "b": 20, "zero": 0}),
            ("row", {}),
            ("token", {"c": 3000, "d": 1}),
        ),
    )
    summary = StageSummary("toy", {}, row, 0, 0.26, 1, skipped=True)
    first, *reasons = lines_of([summary])[2:]

    assert first.split() == ["toy", "(earlier)", "9", "samples", "–", "0.3", "s", "0", "bytes"]
    assert reasons == ["toy: noticed: 20 b, 1 a", "toy: dropped (tokens): 3,000 c, 1 d"]


def lines_of(summaries, columns=80):
    """Return the lines of the table of a run on a terminal of some columns."""
    file = io.StringIO()
    Console(file=file, width=columns).print(accounting_table(summaries))
    return [line.rstrip() for line in file.getvalue().splitlines()]


AMOUNTS = st.lists(st.text("a9, 中ｶ👩\u0301\u0e33é-", max_size=60), min_size=1, max_size=3).map(
    "\n".join
)
NAMES = st.text("az_ 語\u0308🙂", min_size=1, max_size=100)


@pytest.mark.parametrize("examples", [12_345, 123_456_789])
def test_a_long_amount_is_wrapped_below_itself(examples):
    """Amounts and remarks of `corrupt` took more than the 80 columns of a table, and ended the
    run."""
    out = f"{examples:,} examples\n{examples:,} with labels on more than half of the row"
    row = StageRow("24,691,357,800 samples\n= 12,345,678,900 x 2 variants", out)
    lines = lines_of([StageSummary("ten_column", {}, row, 123_456_789, 3600.0, 1, skipped=False)])

    assert max(map(len, lines)) <= 80
    shown = " ".join(" ".join(lines).split())
    for word in (f"{examples:,}", "24,691,357,800", "1 h 0 min", "123.5 MB", "labels"):
        assert word in shown


@given(
    st.lists(
        st.tuples(NAMES, AMOUNTS, AMOUNTS),
        min_size=1,
        max_size=3,
    ),
    NAMES,
    st.integers(60, 120),
)
def test_every_table_has_lines_as_wide_as_its_terminal(stages, reason, columns):
    """Widths as a terminal counts them; no letter of an amount is lost."""
    rows = [
        (name, StageRow(before, after, (("", {reason: 3}),), ((name, StageRow(after)),)))
        for name, before, after in stages
    ]
    summaries = [
        StageSummary(
            name,
            {},
            row,
            10**30,
            1e9,
            1,
            skipped=True,
        )
        for name, row in rows
    ]
    lines = lines_of(summaries, columns)

    assert max(map(cell_len, lines)) <= columns

    letters = Counter("".join(lines))
    expected = Counter(
        "".join(name + before + 2 * after + reason for name, before, after in stages)
    )

    assert all(
        letters[letter] >= count for letter, count in expected.items() if not letter.isspace()
    )
