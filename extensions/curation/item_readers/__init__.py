"""What `decontaminate` asks readers of evaluation items, which other extensions add."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from clozeline.pipeline.tables import Rejected, RowFile

ItemTexts: TypeAlias = tuple[int, tuple[str, ...]]
"""Index of an item, and its texts that documents may contain."""


@runtime_checkable
class ItemReader(Protocol):
    """Reads the items of a file."""

    def suite(self) -> str:
        """Return the name of what the items belong to."""

    def open(self, path: Path) -> RowFile:
        """Open a file after detecting its layout."""

    def item_texts(self, file: RowFile) -> Iterator[ItemTexts | Rejected]:
        """Yield the texts of each item of a file."""
