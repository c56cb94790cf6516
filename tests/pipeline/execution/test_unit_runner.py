"""One unit: its record says what happened, and a marker stays where the process ended in the middle."""

from __future__ import annotations

from typing import Any

import pytest

from clozeline.errors import StorageError
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.execution.unit_runner import UnitRunner
from clozeline.pipeline.recipe import Recipe
from tests.pipeline.execution.toy_stage import ToyStage


class Work(Pass[Any]):
    """Writes a file, then does what it is told."""

    name, units = "work", 3

    def __init__(self, error: BaseException | None = None, lose: int = 0) -> None:
        self.error, self.lose = error, lose

    def run(self, unit: int, output: Output) -> dict[str, int]:
        with output.file(f"{unit}.txt") as path:
            path.write_text("x")
            if self.error:
                raise self.error
        return {"documents_in": 3, "documents_out": 3 - self.lose}


def runner(tmp_path, key="key", **options) -> UnitRunner:
    return UnitRunner(ToyStage(Recipe(corpus="toy", output=tmp_path)), Work(**options), key)


def test_a_unit_is_published_and_recorded(tmp_path) -> None:
    unit = runner(tmp_path)
    assert (unit.has_result(1), unit.load(1)) == (False, None)
    unit(1)
    record = unit.load(1)
    assert record is not None
    assert (record.status, record.counts, list(record.outputs)) == (
        "ok", {"documents_in": 3, "documents_out": 3}, ["1.txt"]
    )  # fmt: skip
    assert (unit.has_result(1), unit.has_result(2), unit.has_started(1)) == (True, False, False)
    assert runner(tmp_path, "another configuration").load(1) is None


@pytest.mark.parametrize(
    ("options", "code", "message", "traced"),
    [
        ({"error": StorageError("disk full")}, 74, "disk full", False),
        (
            {"error": OSError(28, "No space left on device")},
            74,
            "0.txt: No space left on device; free some space",
            False,
        ),
        ({"error": OSError(2, "No such file", "/in/a")}, 74, "/in/a: no such file; it was removed", False),
        ({"error": OSError(13, "Permission denied", "/in/a")}, 74, "/in/a: Permission denied; see that it can", False),
        ({"error": ZeroDivisionError("by 0")}, 1, "ZeroDivisionError('by 0')", True),
        ({"lose": 1}, 65, "do not add up", False),
    ],
)
def test_a_failed_unit_says_why(tmp_path, options, code, message, traced) -> None:
    unit = runner(tmp_path, **options)
    unit(0)
    record = unit.load(0)
    assert record is not None
    assert (record.status, record.exit_code, record.counts, record.outputs) == ("failed", code, {}, {})
    assert message in record.error
    assert ("Traceback" in record.trace) == traced
    assert (tmp_path / "dedup" / "0.txt").exists() == ("lose" in options)
    assert (unit.has_result(0), unit.has_started(0)) == (True, False)


def test_a_process_that_ends_in_the_middle_leaves_its_mark(tmp_path) -> None:
    unit = runner(tmp_path, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        unit(2)
    assert (unit.has_started(2), unit.has_started(1), unit.has_result(2)) == (True, False, False)
    unit.give_up(2, "its worker process died")
    record = unit.load(2)
    assert record is not None
    assert (record.status, record.exit_code, record.error) == ("failed", 69, "its worker process died")
