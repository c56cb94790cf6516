"""Plain text: the file is the document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.readers import Counted, Item, Record
from pipeline.recipe import Limits
from pipeline.whole_file import WHOLE_FILE_REASONS, read_whole

__all__ = ["Text"]


class Text:
    """Reads a whole file, compressed or not, in whatever encoding fits."""

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = WHOLE_FILE_REASONS

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """None."""

    def __init__(self, options: Options, limits: Limits) -> None:
        self._limits = limits

    @staticmethod
    def splittable(head: bytes) -> bool:
        """Never: a document is not cut."""
        return False

    def read(self, path: Path, start: int, end: int) -> Iterator[Item]:
        """The one document."""
        found = read_whole(path, self._limits, meta=False)
        if isinstance(found, Counted):
            yield found
        else:
            text, flags, size = found
            yield Record(0, "text", size, text, flags=flags)
