"""Stages: passes over units, published whole, recorded one by one, skipped when they are done."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from pipeline.errors import ClozelineError
from pipeline.execution.plan import Plan, load_plan
from pipeline.execution.unit_record import TEMPORARY, Counts, Output, UnitRecord
from pipeline.recipe import Recipe

__all__ = ["Pass", "Stage", "UnitRunner"]


class Pass(ABC):
    """One pass of a stage: the same work on units 0 .. units - 1, in any order, in any process. Picklable."""

    name: str
    units: int

    @abstractmethod
    def run(self, unit: int, output: Output) -> Counts:
        """Do one unit: write files through `output`, return sums."""


class Stage(ABC):
    """A verb of the pipeline: passes that run one after another."""

    name: ClassVar[str]

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.folder = recipe.folder(self.name)

    @cached_property
    def plan(self) -> Plan:
        """Units and shards of the run; a run sets the plan that all its stages share."""
        return load_plan(self.recipe)

    @abstractmethod
    def version(self) -> int:
        """Sum of the `VERSION`s of the algorithms that decide bytes."""

    @abstractmethod
    def passes(self) -> Sequence[Pass]:
        """The passes, in order."""

    def check(self, counts: Counts) -> None:  # noqa: B027 (a stage without equations has none to check)
        """Raise IntegrityError where an accounting equation fails; called per unit and on the sum."""


@dataclass(frozen=True)
class UnitRunner:
    """Runs one unit of a pass in any process: work, check, publish, record. Picklable."""

    stage: Stage
    work: Pass
    key: str

    def __call__(self, unit: int) -> None:
        """Run a unit; an error of its own becomes a record with status `failed`."""
        folder = self.stage.folder
        marker = self._marker(unit)
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
        output = Output(folder)
        try:
            counts = self.work.run(unit, output)
            self.stage.check(counts)
        except Exception as error:
            known = isinstance(error, ClozelineError)
            self._fail(unit, str(error) if known else repr(error), error.exit_code if known else 1, trace=not known)  # type: ignore[attr-defined]
        else:
            UnitRecord(self.work.name, unit, self.key, "ok", counts, output.files).save(folder)
        marker.unlink(missing_ok=True)

    def _fail(self, unit: int, message: str, exit_code: int, *, trace: bool = False) -> None:
        text = traceback.format_exc() if trace else ""
        record = UnitRecord(self.work.name, unit, self.key, "failed", {}, {}, message, exit_code, text)
        record.save(self.stage.folder)

    def _marker(self, unit: int) -> Path:
        return self.stage.folder / TEMPORARY / "running" / f"{self.work.name}-{unit:06d}"

    def load(self, unit: int) -> UnitRecord | None:
        """The unit's record if it belongs to this configuration."""
        record = UnitRecord.load(self.stage.folder, self.work.name, unit)
        return record if record is not None and record.key == self.key else None

    def done(self, unit: int) -> bool:
        """Whether the unit has been dealt with, well or not: the driver removes the records of what must be made."""
        return UnitRecord.path(self.stage.folder, self.work.name, unit).exists()

    def started(self, unit: int) -> bool:
        """Whether a process began the unit and never came to its end."""
        return self._marker(unit).exists()

    def give_up(self, unit: int, reason: str) -> None:
        """UnitRecord the unit as failed."""
        self._fail(unit, reason, 69)
