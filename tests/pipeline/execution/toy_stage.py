"""A two-pass stage on numbers, for tests of the machinery; `FAULT` says what a unit suffers."""

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.stages import Pass, Stage
from clozeline.pipeline.execution.unit_record import require_equal


@dataclass
class Square(Pass):
    units: int
    fault: str = ""
    version: int = 1
    name: str = "square"

    def options(self, unit):
        return {"version": self.version}

    def reads(self, unit, known):
        return {}

    def run(self, unit, output):
        flag = output.folder.parent / "once"
        if self.fault == "die always" and unit == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "die once" and unit == 1 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)

        if self.fault == "endless" and unit == 1:
            signal.pause()
        if self.fault == "bug" and unit == 1:
            raise ZeroDivisionError
        if self.fault == "user" and unit == 1:
            raise ConfigurationError("the seventh seal is missing")
        with output.file(f"tmp/{unit:06d}.txt") as path:
            path.write_text(str(unit * unit))
        return {"squares": 1}


@dataclass
class Gather(Pass):
    units: int
    of: int
    folder: Path
    name: str = "main"

    def options(self, unit):
        return {"of": self.of}

    def reads(self, unit, known):
        names = [f"{i:06d}" for i in range(unit, self.of, self.units)]
        return {"squares": "".join(known.digest(self.folder, "square", name) for name in names)}

    def run(self, unit, output):
        mine = [
            int((output.folder / f"tmp/{i:06d}.txt").read_text())
            for i in range(unit, self.of, self.units)
        ]
        with output.file(f"sums/{unit:06d}.txt") as path:
            path.write_text(str(sum(mine)))
        return {"documents_in": len(mine), "documents_out": len(mine)}


class ToyStage(Stage):
    name = "dedup"
    place = 20

    def __init__(self, recipe, fault="", version=1):
        super().__init__(recipe)
        self.fault = fault
        self._version = version

    def passes(self):
        return [Square(6, self.fault, self._version), Gather(2, 6, self.folder)]

    def row(self, counts):
        return StageRow(f"{counts['squares']} numbers")

    def check(self, counts, *, complete=True):
        inside, out = (counts.get(f"documents_{side}", 0) for side in ("in", "out"))
        require_equal("toy", "documents in", inside, "documents out", out)


def tree(folder):
    """Every published data file and record, without the times of records."""
    return {
        path.relative_to(folder).as_posix(): timeless(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(("report.", "config.yaml"))
    }


def timeless(path):
    """Return the content of a file; of a record, without the time when its unit ran."""
    content = path.read_bytes()
    if "records" not in path.parts:
        return content
    record = json.loads(content)
    return json.dumps(
        {name: record[name] for name in record if name not in ("made", "cpu_seconds", "checksum")}
    ).encode()
