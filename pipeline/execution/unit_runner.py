"""Run one unit of a pass in any process: work, check, publish, record."""

import errno
import os
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clozeline.errors import ClozelineError, StorageError, message_text
from clozeline.pipeline.execution.stage_report import unit_marker
from clozeline.pipeline.execution.stages import Pass, Stage
from clozeline.pipeline.execution.unit_record import LOGS, Output, UnitRecord
from clozeline.repair import cannot_write


@dataclass(frozen=True)
class UnitRunner:
    """The step that workers run on each unit of a pass. Picklable."""

    stage: Stage[Any, Any]
    work: Pass[Any]
    key: str
    """key that the records of the units must have"""

    @property
    def logs(self) -> Path:
        return self.stage.folder / LOGS / self.work.name

    def __call__(self, unit: int) -> None:
        folder = self.stage.folder
        marker, finished = (unit_marker(folder, state, self.work.name, unit) for state in ("running", "finished"))
        try:
            for path in (marker, finished):
                path.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
        except OSError as error:
            raise StorageError(cannot_write(marker, error)) from error
        output = Output(folder)
        try:
            counts = self.work.run(unit, output)
            self.stage.check(counts)
        except ClozelineError as error:
            self._fail(unit, str(error), error.exit_code)
        except OSError as error:
            # no layer below has explained the error of a file
            path = Path(os.fsdecode(error.filename)) if error.filename else folder
            message = f"{path}: {error.strerror or error}; see that it can be read, then run the same command again"
            if error.errno == errno.ENOENT:
                message = f"{path}: no such file; it was removed while the stage ran"
                message += ": put it back, or run the stage that wrote it"
            elif path.is_relative_to(folder):
                message = cannot_write(path, error)
            self._fail(unit, message, StorageError.exit_code)
        except Exception as error:
            self._fail(unit, message_text(repr(error)), 1, message_text(traceback.format_exc()))
        else:
            record = UnitRecord(self.work.name, unit, self.key, "ok", counts, output.files, inputs=output.inputs)
            record.save(folder)
        with suppress(OSError):  # the time of the marker, the start of the unit, is all that is left of it
            marker.replace(finished)

    def _fail(self, unit: int, message: str, exit_code: int, trace: str = "") -> None:
        record = UnitRecord(self.work.name, unit, self.key, "failed", {}, {}, message, exit_code, trace)
        record.save(self.stage.folder)

    def load(self, unit: int) -> UnitRecord | None:
        """Return the unit's record if it belongs to this configuration."""
        record = UnitRecord.load(self.stage.folder, self.work.name, unit)
        return record if record is not None and record.key == self.key else None

    def has_result(self, unit: int) -> bool:
        # the driver removes the records of units that must be made before it starts a pass
        return UnitRecord.path(self.stage.folder, self.work.name, unit).exists()

    def has_started(self, unit: int) -> bool:
        return unit_marker(self.stage.folder, "running", self.work.name, unit).exists()

    def give_up(self, unit: int, reason: str) -> None:
        self._fail(unit, reason, 69)
