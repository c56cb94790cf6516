"""Store what readers of datatrove yield, before the plan: each task of each reader is a unit.

A reader may yield other documents tomorrow, for example of a data set that has grown. So they are
stored once in `OUT/read/`, with their hash in the record of the unit, and the plan lists these
files as inputs. To read again: `--force read`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from clozeline.errors import ConfigurationError, plural
from clozeline.pipeline.execution.block_tasks import READ_FOLDER, BlockTask, list_block_tasks
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.stages import Pass, Stage, describe_algorithms
from clozeline.pipeline.execution.unit_record import Counts, KnownRecords, Output
from clozeline.pipeline.ingest.datatrove_blocks import create_block, import_block
from clozeline.pipeline.ingest.documents.json_lines import open_json_lines
from clozeline.pipeline.ingest.formats.portable_json import to_portable_json
from clozeline.pipeline.recipe import Recipe

_VERSION: Final = 1


class ReadCounts(Counts, total=False):
    """Counts of a task of a reader."""

    media: int  # images and other media of documents, which are not stored


@dataclass
class BlockReading(Pass[ReadCounts]):
    """Per task of a reader: write the documents that it yields as lines of JSON."""

    tasks: Sequence[BlockTask]
    units: int
    name: str = "main"

    def unit_name(self, unit: int) -> str:
        return self.tasks[unit].name

    def options(self, unit: int) -> Mapping[str, Any]:
        task = self.tasks[unit]
        return {
            "version": _VERSION,
            "block": task.block,
            "options": task.arguments,
            "world_size": task.world_size,
            **describe_algorithms([import_block(task.block)]),
        }

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        """Return nothing: what a reader reads is not known, so its documents are stored."""
        return {}

    def run(self, unit: int, output: Output) -> ReadCounts:
        task = self.tasks[unit]
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
        return [BlockReading(self.tasks, len(self.tasks))]

    def row(self, counts: ReadCounts) -> StageRow:
        media = {"media, which are not stored": counts["media"]}
        documents = plural(counts["documents_out"], "document")
        return StageRow(plural(len(self.tasks), "task"), documents, dropped=(("", media),))
