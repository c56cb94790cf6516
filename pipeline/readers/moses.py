"""Two files of aligned lines: line i of one and line i of the other are a pair."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar

from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.errors import StorageError
from pipeline.formats.byte_lines import ByteLines
from pipeline.formats.decompression import REASONS
from pipeline.formats.limits import Limits
from pipeline.readers import Counted, Item, RawRecord

__all__ = ["Moses"]


class Moses:
    """Reads both files line by line, plain or compressed; to be named in the recipe, with `target_path`.

    The locator is the line's number from 0. Files of different numbers of lines cannot be aligned, so the unit fails; a
    damaged stream gives the pairs before the damage.

    Example:
        pairs.en `It is raining.`, pairs.de `Es regnet.`
    """

    VERSION: ClassVar[int] = 1
    suffixes: ClassVar[tuple[str, ...]] = ()
    reasons: ClassVar[tuple[str, ...]] = (*REASONS, "bad_utf8", "line_bytes")

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """The other file."""

        target_path: str
        """file with the other sides"""

    def __init__(self, options: Options, limits: Limits) -> None:
        self._target = Path(options.target_path)
        self._limits = limits

    @staticmethod
    def splittable(head: bytes) -> bool:
        """Return False: only a count from the start says which line of the other file belongs to a line."""
        return False

    def read(self, path: Path, start: int, end: int) -> Iterator[Item]:
        """Yield all pairs.

        Raises:
            StorageError: the other file is missing, or one of the two has more lines.
        """
        if not self._target.is_file():
            raise StorageError(f"{self._target}: no such file; `target_path` names the other sides of {path}")
        sides = [ByteLines(one, 0, one.stat().st_size, self._limits) for one in (path, self._target)]
        for number, pair in enumerate(zip_longest(*sides)):
            damaged = next((side for side in sides if side.damage is not None), None)
            if None in pair and damaged is None:
                raise StorageError(
                    f"{path} and {self._target}: one ends after line {number}, the other has more; lines of the same "
                    "number must belong together"
                )
            if None in pair:
                break
            yield self._item(number, pair[0][1], pair[1][1])
        for side in sides:
            if side.damage is not None:
                yield Counted("malformed", side.damage, side.cut)

    def _item(self, number: int, text: bytes | int, target: bytes | int) -> Item:
        if isinstance(text, int) or isinstance(target, int):
            return Counted("malformed", "line_bytes", sum(s if isinstance(s, int) else len(s) for s in (text, target)))
        length = len(text) + len(target)
        if not text.strip() and not target.strip():
            return Counted("ignored", "blank_line", length)
        try:
            first, second = (side.removesuffix(b"\r").decode("utf-8-sig") for side in (text, target))
        except UnicodeDecodeError:
            return Counted("malformed", "bad_utf8", length)
        return RawRecord(number, "moses", length, first, target_text=second)
