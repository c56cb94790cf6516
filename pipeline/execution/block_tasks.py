"""Tasks of readers of datatrove, and the files with their documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clozeline import plugins
from clozeline.configuration.config import config_digest, validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.datatrove_blocks import import_block
from clozeline.pipeline.ingest.documents.files import DOCUMENTS_FOLDER
from clozeline.pipeline.ingest.documents.json_lines import JSON_LINES_SUFFIX
from clozeline.pipeline.ingest.reader_options import select_options
from clozeline.pipeline.ingest.readers.datatrove import DatatroveReader
from clozeline.pipeline.recipe import InputEntry

READ_FOLDER: Final = "read"
"""Folder of these files and their records, in the output of a run."""
_DIGEST_CHARACTERS: Final = 12


@dataclass(frozen=True)
class BlockTask:
    """One task of a reader of datatrove, `rank` of `world_size`."""

    block: str
    arguments: Mapping[str, Any]
    rank: int
    world_size: int

    @property
    def algorithms(self) -> Sequence[type]:
        """The class of the reader."""
        return [import_block(self.block)]

    @property
    def name(self) -> str:
        """Name of the unit: another reader, argument or number of tasks has another one."""
        digest = config_digest({"block": self.block, "options": self.arguments})
        short = plugins.short_name(self.block)
        part = f"{self.rank:05d}-of-{self.world_size:05d}"
        return f"{short}-{digest[:_DIGEST_CHARACTERS]}-{part}"

    @property
    def file(self) -> str:
        """Path of the documents, relative to `READ_FOLDER`."""
        return f"{DOCUMENTS_FOLDER}{self.name}{JSON_LINES_SUFFIX}"

    def find(self, output: Path | None) -> Path:
        """Return the path of the documents of a run; ConfigurationError before they are read."""
        path = Path() if output is None else output / READ_FOLDER / self.file
        if not path.is_file():
            raise ConfigurationError(
                f"input {self.block}: nothing has been read yet, so the units and shards of this "
                "run are not known: run `clozeline pipeline` or `clozeline clean` once without "
                "--plan"
            )
        return path


def list_block_tasks(entry: InputEntry) -> list[BlockTask]:
    """Return the tasks of an input that names a block; empty for other inputs."""
    if entry.block is None:
        return []
    keys = select_options("datatrove", entry.options)
    options: DatatroveReader.Options = validate(DatatroveReader.Options, keys, "reader datatrove")
    world = options.tasks
    return [BlockTask(entry.block, options.options, rank, world) for rank in range(world)]
