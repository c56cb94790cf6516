"""HTML files: the file is the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.readers import Counted, Item, Record
from pipeline.recipe import Limits
from pipeline.whole_file import WHOLE_FILE_REASONS, read_whole

__all__ = ["Html"]


class Html:
    """Reads a whole page, compressed or not; its `<meta>` may name the encoding."""

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = WHOLE_FILE_REASONS

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """None."""

    def __init__(self, options: Options, limits: Limits) -> None:
        self._limits = limits

    @staticmethod
    def splittable(head: bytes) -> bool:
        """Never: a page is not cut."""
        return False

    def read(self, path: Path, start: int, end: int) -> Iterator[Item]:
        """The one page."""
        found = read_whole(path, self._limits, meta=True)
        if isinstance(found, Counted):
            yield found
        else:
            text, flags, size = found
            yield Record(0, "html", size, text, markup=True, flags=flags)
