"""Read what a reader of datatrove yields, which was stored before as lines of JSON."""

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Any

from clozeline.configuration.config import Positive, config_class
from clozeline.configuration.named_algorithms import IsName
from clozeline.errors import ConfigurationError
from clozeline.extensions.datatrove.block_tasks import BlockTask
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import Item
from clozeline.pipeline.ingest.readers._rows import LineFileReader
from clozeline.pipeline.ingest.readers.jsonl import JsonlReader


class DatatroveReader(LineFileReader):
    """Reads the documents of a reader of datatrove, whose class is the option `block`.

    Metadata goes to `extra`, except `url`, `date` and `language`. The documents of each task are
    stored once, in `OUT/read/`, and this file is read again in every later run.
    """

    VERSION = 1
    reads_files = False
    self_delimiting = True
    reasons = JsonlReader.reasons

    @config_class
    class Options(JsonlReader.Options):
        """The block, its arguments, and how its texts are read."""

        block: Annotated[str, IsName()] = ""
        """class of a reader of datatrove, such as
        datatrove.pipeline.readers:HuggingFaceDatasetReader"""
        options: dict[str, Any] = field(default_factory=dict)
        """arguments of the constructor of `block`, by name"""
        tasks: Positive = 1
        """number of tasks that read, ≥ 1: the `world_size` of datatrove; each is a unit"""
        id_key: str | None = "id"
        """field that becomes `id` of `extra`"""
        language_key: str | None = "language"
        """field with the language code; the language is then not identified"""
        date_key: str | None = "date"
        """field with the date: ISO 8601, or seconds or milliseconds since 1970"""

    def __init__(self, options: Options, limits: InputLimits) -> None:
        super().__init__(options, limits)
        self._lines = JsonlReader(options, limits)

    @staticmethod
    def list_tasks(options: Options) -> Sequence[BlockTask]:
        if not options.block:
            raise ConfigurationError("reader datatrove: expected `block: module:Class`, got none")
        world = options.tasks
        return [BlockTask(options.block, options.options, rank, world) for rank in range(world)]

    @staticmethod
    def is_splittable(head: bytes) -> bool:
        """Return false: the documents of a task are one unit."""
        return False

    def parse(self, line: str, offset: int, length: int) -> Item:
        return self._lines.parse(line, offset, length)
