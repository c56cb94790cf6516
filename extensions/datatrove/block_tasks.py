"""Tasks of readers of datatrove."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clozeline import plugins
from clozeline.configuration.config import config_digest
from clozeline.errors import ConfigurationError
from clozeline.extensions.datatrove.blocks import create_block, import_block
from clozeline.pipeline.ingest.formats.portable_json import to_portable_json
from clozeline.pipeline.ingest.readers._read_task import ReadTask

_DIGEST_CHARACTERS: Final = 12


@dataclass(frozen=True)
class BlockTask(ReadTask):
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

    def iterate_rows(self) -> Iterator[tuple[Mapping[str, Any], int]]:
        """Yield what the reader yields, as datatrove's executors ask for it."""
        reader = create_block(self.block, self.arguments)
        try:
            for document in reader.run(None, self.rank, self.world_size):
                row = {**to_portable_json(document.metadata), "text": document.text}
                yield {**row, "id": str(document.id)}, len(document.media)
        except (ValueError, RuntimeError, OSError, ImportError) as error:
            raise ConfigurationError(
                f"{self.block}: task {self.rank} of {self.world_size} with the options "
                f"{dict(self.arguments)}: {type(error).__name__}: {error}"
            ) from error
