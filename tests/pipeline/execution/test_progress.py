"""Progress of a run: a live bar, or lines, and units done by listings.

Then the table of what each stage did.
"""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from clozeline.pipeline.execution import progress
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.progress import Progress, RunningPass
from clozeline.pipeline.recipe import Recipe
from tests.pipeline.execution.toy_stage import ToyStage, run_toy


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        (
            "usual",
            [
                "clean: 0/1,000 units",
                "clean: 200/1,000 units, 0:04:00 left",
                "clean: 400/1,000 units, 0:03:00 left",
            ],
        ),
        ("verbose", 14),
        ("quiet", 0),
    ],
)
def test_without_a_terminal_a_minute_has_at_most_one_line_with_the_time_left(
    tmp_path, monkeypatch, detail, expected
):
    """33 units in 10 seconds, 200 a minute, so that after a minute 4 are left."""
    clock = SimpleNamespace(monotonic=lambda: clock.now, time=lambda: 0.0, now=100.0)
    monkeypatch.setattr(progress, "time", clock)
    folder = tmp_path / "records" / "main"
    folder.mkdir(parents=True)
    units = [f"{unit:06d}" for unit in range(1000)]
    shown = Progress(detail)
    shown.console = Console(file=io.StringIO(), width=80, quiet=detail == "quiet")
    stage = SimpleNamespace(name="clean", folder=tmp_path, equations=())
    with shown.follow(RunningPass(stage, "main", units)) as tick:
        for step in range(1, 14):
            clock.now = 100.0 + 10 * step
            for unit in units[(step - 1) * 100 // 3 : step * 100 // 3]:
                (folder / f"{unit}.json").touch()
                (folder / f"score-{unit}.json").touch()  # of another pass
            tick()
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


def test_bytes_of_units_are_added(tmp_path, monkeypatch):
    run_toy(tmp_path)
    clock = SimpleNamespace(monotonic=lambda: clock.now, time=lambda: 0.0, now=100.0)
    monkeypatch.setattr(progress, "time", clock)
    stage = ToyStage(Recipe(corpus="toy", output=tmp_path))
    running = RunningPass(stage, "square", [f"{number:06d}" for number in range(8)])
    clock.now = 160.0
    running.look(now=True)

    assert running.describe()["written_bytes_per_second"] == len("01491625") / 60
