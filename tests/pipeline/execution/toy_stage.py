"""A two-pass stage on numbers, for tests of the machinery; `fault` says what unit 1 suffers,
or `disk + user` what units 1 and 2 do."""

import json
import os
import signal
from dataclasses import dataclass, field

from clozeline.errors import ConfigurationError
from clozeline.output_lock import hold_output
from clozeline.pipeline.execution.equations import Equation, StageRow
from clozeline.pipeline.execution.plan import Plan
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.stage_run import StageRun
from clozeline.pipeline.execution.stages import Pass, Stage, Unit
from clozeline.pipeline.execution.unit_record import KnownRecords
from clozeline.pipeline.recipe import ExecutorConfig, Recipe

FAULTS = {
    "bug": ZeroDivisionError("by 0"),
    "user": ConfigurationError("the seventh seal is missing"),
    "disk": OSError(28, "No space left"),
}


@dataclass(frozen=True)
class Square(Unit):
    number: int
    version: int = 1
    fault: str = field(default="", compare=False)

    def run(self, inputs, output):
        with output.file(f"tmp/{self.number:06d}.txt") as path:
            path.write_text(str(self.number**2))
            self._suffer(output.folder.parent / "once")
        return {"squares": 1, "documents_in": self.fault == "count"}

    def _suffer(self, flag):
        if self.fault == "die always" or (self.fault == "die once" and not flag.exists()):
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if error := FAULTS.get(self.fault):
            raise error


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
    equations = (Equation(["documents_in"], ["documents_out"]),)

    def __init__(self, recipe, fault="", version=1):
        super().__init__(recipe)
        self.fault = fault
        self._version = version

    def passes(self):
        names = [f"{number:06d}" for number in range(6)]
        faults = ["", *self.fault.split(" + "), *names]
        squares = {
            name: Square(number, self._version, faults[number]) for number, name in enumerate(names)
        }
        sums = {names[number]: Gather(number, tuple(names[number::2])) for number in range(2)}
        return [Pass("square", squares), Pass("main", sums)]

    def row(self, counts):
        return StageRow(f"{counts['squares']} numbers")


def run_toy(
    output,
    fault="",
    name="local",
    *,
    tasks=None,
    workers=None,
    keep=True,
    verify=False,
    version=1,
    before=2**30,
    **options,
):
    """Run the toy stage as a driver does, over `before` bytes of inputs; return its summary."""
    executor = ExecutorConfig(name=name, tasks=tasks, workers=workers, options=options)
    recipe = Recipe(corpus="toy", output=output, executor=executor, keep_intermediates=keep)
    stage = ToyStage(recipe, fault, version)
    stage.plan = Plan((), 1, ({"source": "toy", "bytes": before},))
    run = StageRun(stage, KnownRecords(), verify=verify)
    with hold_output(output, lambda: None):
        return run.execute(Progress())


def tree(folder):
    """Return what a stage has published, and its records without the times when units ran."""
    return {
        name: _read(folder / name)
        for name in sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
        if (folder / name).is_file() and not name.startswith(("report.", "config.yaml", "logs/"))
    }


def _read(path):
    content = path.read_bytes()
    if "records" not in path.parts or path.parent.name == "options":
        return content
    times = ("made", "cpu_seconds", "checksum")
    return {name: value for name, value in json.loads(content).items() if name not in times}
