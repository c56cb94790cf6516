"""A two-pass stage on numbers, for tests of the machinery; `FAULT` says what a unit suffers."""

import json
import os
import signal
from dataclasses import dataclass, field

from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.stages import Pass, Stage, Unit
from clozeline.pipeline.execution.unit_record import require_equal


@dataclass(frozen=True)
class Square(Unit):
    number: int
    version: int = 1
    fault: str = field(default="", compare=False)

    def run(self, inputs, output):
        unit = self.number
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


@dataclass(frozen=True)
class Gather(Unit):
    number: int
    squares: tuple[str, ...]

    def run(self, inputs, output):
        mine = [
            int(inputs.file("dedup", "square", name, f"tmp/{name}.txt").text())
            for name in self.squares
        ]
        with output.file(f"sums/{self.number:06d}.txt") as path:
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
        names = [f"{number:06d}" for number in range(6)]
        squares = {
            name: Square(number, self._version, self.fault) for number, name in enumerate(names)
        }
        sums = {names[number]: Gather(number, tuple(names[number::2])) for number in range(2)}
        return [Pass("square", squares), Pass("main", sums)]

    def row(self, counts):
        return StageRow(f"{counts['squares']} numbers")

    def check(self, counts):
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
    if "records" not in path.parts or path.parent.name == "options":
        return content
    record = json.loads(content)
    return json.dumps(
        {name: record[name] for name in record if name not in ("made", "cpu_seconds", "checksum")}
    ).encode()
