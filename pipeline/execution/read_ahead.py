"""Store what readers fetch themselves, before the plan: each of their tasks is a unit.

Such a reader may yield other documents tomorrow, for example of a data set that has grown. So they
are stored once in `OUT/read/`, with their hash in the record of the unit, and the plan lists these
files as inputs. To read again: `--force read`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from clozeline.errors import plural
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.plan import Plan
from clozeline.pipeline.execution.stages import Pass, Stage, Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Counts, Output
from clozeline.pipeline.ingest.documents.json_lines import open_json_lines
from clozeline.pipeline.ingest.readers._read_task import READ_FOLDER, ReadTask
from clozeline.pipeline.recipe import Recipe


class ReadCounts(Counts, total=False):
    """Counts of a task."""

    media: int  # images and other media of documents, which are not stored


@dataclass(frozen=True)
class Reading(Unit[ReadCounts]):
    """Write the documents of a task as lines of JSON.

    What a reader reads is not known, so its documents are stored.
    """

    task: ReadTask

    def run(self, inputs: UnitInputs, output: Output) -> ReadCounts:
        counts = ReadCounts(documents_out=0, media=0)
        with output.file(self.task.file) as temporary, open_json_lines(temporary) as write:
            for row, media in self.task.iterate_rows():
                write(dict(row))
                counts["documents_out"] += 1
                counts["media"] += media

        return counts


class ReadStage(Stage[None, ReadCounts]):
    """Stores the documents of all inputs whose readers fetch them."""

    name = READ_FOLDER
    equations = ()

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        self.plan = Plan((), shards=0, inputs=())
        self.tasks = [task for entry in recipe.input for task in entry.read_tasks()]

    def passes(self) -> Sequence[Pass[ReadCounts]]:
        """Return one pass, in which each task is a unit."""
        return [Pass("main", {task.name: Reading(task) for task in self.tasks})]

    def row(self, counts: ReadCounts) -> StageRow:
        media = {"media, which are not stored": counts["media"]}
        documents = plural(counts["documents_out"], "document")
        return StageRow(plural(len(self.tasks), "task"), documents, dropped=(("", media),))
