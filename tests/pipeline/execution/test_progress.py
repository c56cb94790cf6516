"""Progress of a run: a live bar, or lines, and units done by listings.

Then the table of what each stage did.
"""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from clozeline.pipeline.execution import progress
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.plan import Plan, PlannedRange
from clozeline.pipeline.execution.progress import Progress, RunningPass, seconds_left
from clozeline.pipeline.recipe import Recipe
from tests.pipeline.execution.toy_stage import ToyStage, run_toy


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        (
            "usual",
            [
                "clean: 0/1,000 units, 0:09:00 left",
                "clean: 200/1,000 units, 0:06:30 left",
                "clean: 400/1,000 units, 0:05:30 left",
            ],
        ),
        ("verbose", 14),
        ("quiet", 0),
    ],
)
def test_without_a_terminal_a_minute_has_at_most_one_line_with_the_time_left(
    tmp_path, monkeypatch, detail, expected
):
    """33 units in 10 seconds, 200 a minute. The stages are expected to take 6 and 3 minutes, and
    take 5 and 2.5."""
    clock = SimpleNamespace(monotonic=lambda: clock.now, time=lambda: 0.0, now=100.0)
    monkeypatch.setattr(progress, "time", clock)
    folder = tmp_path / "records" / "main"
    folder.mkdir(parents=True)
    units = [f"{unit:06d}" for unit in range(1000)]
    shown = Progress(detail)
    shown.console = Console(file=io.StringIO(), width=80, quiet=detail == "quiet")
    stage = SimpleNamespace(name="clean", folder=tmp_path, equations=(), plan=Plan((), 0, ()))
    shown.expected = {"clean": 360.0, "dedup": 180.0}
    shown.begin("clean")
    with shown.follow(RunningPass(stage, "main", units)) as tick:
        for step in range(1, 14):
            clock.now = 100.0 + 10 * step
            for unit in units[(step - 1) * 100 // 3 : step * 100 // 3]:
                (folder / f"{unit}.json").touch()
                (folder / f"score-{unit}.json").touch()  # of another pass
            tick()
    lines = shown.console.file.getvalue().splitlines()

    assert expected in (lines, len(lines))


@pytest.mark.parametrize(
    ("stage", "times", "share", "left"),
    [
        ("a", (0, 0, 0), None, 100),
        ("a", (0, 0, 30), None, 70),  # as expected
        ("a", (0, 0, 90), None, 60),  # a takes 90 s instead of 60
        ("a", (0, 0, 20), 1 / 6, 180),  # half as fast: 200 s in all
        ("b", (120, 120, 130), None, 70),  # a took twice its time, b has 70 s left
        ("b", (120, 120, 160), 0.5, 53 + 1 / 3),  # 75 s of work done in 160 s, 25 are left
        (
            "b",
            (120, 150, 160),
            0.4,
            19 * 160 / 81,
        ),  # another pass: 15 + 0.4 * 15 of b's 30 s are done
        ("c", (200, 200, 210), 0.5, 5 * 210 / 95),  # 95 s of work done in 210 s, 5 are left
    ],
)
def test_the_time_left_is_that_of_the_run(stage, times, share, left):
    expected = {"a": (0, 60, 40), "b": (60, 30, 10), "c": (90, 10, 0)}[stage]
    assert seconds_left(*expected, *times, share) == pytest.approx(left)


def test_units_count_by_their_bytes_and_running_ones_as_halves(tmp_path):
    """Units of 30, 10 and 20 MB: 30 are done, and about 15 of the other two."""
    sizes = {"a": 30_000_000, "b": 10_000_000, "c": 20_000_000}
    ranges = (PlannedRange(n, name, "", "", 0, sizes[name]) for n, name in enumerate(sizes))
    plan = Plan((*ranges,), 1, tuple({"source": name, "bytes": sizes[name]} for name in sizes))
    stage = SimpleNamespace(name="clean", folder=tmp_path, plan=plan)
    running = RunningPass(stage, "main", plan.names)
    folder = tmp_path / "records" / "main"
    folder.mkdir(parents=True)
    (folder / f"{plan.names[1]}.running").touch()
    running.look(now=True)
    assert running.share is None
    (folder / f"{plan.names[0]}.json").touch()
    running.look(now=True)
    assert running.share == pytest.approx(45 / 60)


def test_reasons_stand_group_by_group_the_most_frequent_first():
    dropped = (("", {"a": 1, "b": 20, "zero": 0}), ("row", {}), ("token", {"c": 3000, "d": 1}))
    row = StageRow("9 samples", dropped=dropped, characters=40, cut={"a": 1, "b": 2})
    remarks = [*row.remarks()]

    assert remarks == [
        "noticed: 20 b, 1 a",
        "dropped (tokens): 3,000 c, 1 d",
        "cut: 3 of 40 characters: 2 b, 1 a",
    ]


def test_bytes_of_units_are_added(tmp_path, monkeypatch):
    run_toy(tmp_path)
    clock = SimpleNamespace(monotonic=lambda: clock.now, time=lambda: 0.0, now=100.0)
    monkeypatch.setattr(progress, "time", clock)
    stage = ToyStage(Recipe(corpus="toy", output=tmp_path))
    running = RunningPass(stage, "square", [f"{number:06d}" for number in range(8)])
    clock.now = 160.0
    running.look(now=True)

    assert running.describe()["written_bytes_per_second"] == len("01491625") / 60
