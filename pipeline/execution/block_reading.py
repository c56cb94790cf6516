"""Store what readers of datatrove yield, before the plan: each task of each reader is a unit.

A reader may yield other documents tomorrow, for example of a data set that has grown. So they are
stored once in `OUT/read/`, with their hash in the record of the unit, and the plan lists these
files as inputs. To read again: `--force read`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from clozeline.errors import ConfigurationError, plural
from clozeline.pipeline.execution.block_tasks import READ_FOLDER, BlockTask, list_block_tasks
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.stages import Pass, Stage, Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Counts, Output
from clozeline.pipeline.ingest.datatrove_blocks import create_block
from clozeline.pipeline.ingest.documents.json_lines import open_json_lines
from clozeline.pipeline.ingest.formats.portable_json import to_portable_json
from clozeline.pipeline.recipe import Recipe


class ReadCounts(Counts, total=False):
    """Counts of a task of a reader."""

    media: int  # images and other media of documents, which are not stored


@dataclass(frozen=True)
class BlockReading(Unit[ReadCounts]):
    """Write the documents that a task of a reader yields as lines of JSON.

    What a reader reads is not known, so its documents are stored.
    """

    task: BlockTask

    def run(self, inputs: UnitInputs, output: Output) -> ReadCounts:
        task = self.task
        counts = ReadCounts(documents_out=0, media=0)
        with output.file(task.file) as temporary, open_json_lines(temporary) as write:
            for document in _read_documents(task):
                row = {**to_portable_json(document.metadata), "text": document.text}
                write({**row, "id": str(document.id)})
                counts["documents_out"] += 1
                counts["media"] += len(document.media)

        return counts


def _read_documents(task: BlockTask) -> Iterator[Any]:
    """Yield the documents of a task, as datatrove's executors ask for them."""
    reader = create_block(task.block, task.arguments)
    try:
        yield from reader.run(None, task.rank, task.world_size)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        raise ConfigurationError(
            f"{task.block}: task {task.rank} of {task.world_size} with the options "
            f"{dict(task.arguments)}: {type(error).__name__}: {error}"
        ) from error


class ReadStage(Stage[None, ReadCounts]):
    """Stores the documents of all readers of datatrove that the inputs name."""

    name: ClassVar[str] = READ_FOLDER

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        self.tasks = [task for entry in recipe.input for task in list_block_tasks(entry)]

    def passes(self) -> Sequence[Pass[ReadCounts]]:
        """Return one pass, in which each task is a unit."""
        return [Pass("main", {task.name: BlockReading(task) for task in self.tasks})]

    def row(self, counts: ReadCounts) -> StageRow:
        media = {"media, which are not stored": counts["media"]}
        documents = plural(counts["documents_out"], "document")
        return StageRow(plural(len(self.tasks), "task"), documents, dropped=(("", media),))
