"""Tasks of readers that fetch their documents themselves, instead of reading files of `path`."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.documents.files import DOCUMENTS_FOLDER
from clozeline.pipeline.ingest.documents.json_lines import JSON_LINES_SUFFIX

READ_FOLDER: Final = "read"
"""Folder of the fetched documents and their records, in the output of a run."""


class ReadTask(ABC):
    """A part of what a reader fetches: a frozen dataclass, which can be pickled."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of its unit and file: another source, argument or part has another one."""

    @abstractmethod
    def iterate_rows(self) -> Iterator[tuple[Mapping[str, Any], int]]:
        """Yield documents as rows of JSON lines, and how many media of each are not stored."""

    @property
    def file(self) -> str:
        """Path of the documents, relative to `READ_FOLDER`."""
        return f"{DOCUMENTS_FOLDER}{self.name}{JSON_LINES_SUFFIX}"

    def find(self, output: Path | None) -> Path:
        """Return the path of the documents of a run; ConfigurationError before they are read."""
        path = Path() if output is None else output / READ_FOLDER / self.file
        if not path.is_file():
            raise ConfigurationError(
                f"input {self.name}: nothing has been read yet, so the units and shards of this "
                "run are not known: run `clozeline pipeline` or `clozeline clean` once without "
                "--plan"
            )
        return path
