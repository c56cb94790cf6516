"""Two files of aligned lines: line i of one and line i of the other are a pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar

from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.errors import StorageError
from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines, Cut
from clozeline.pipeline.ingest.formats.decompression import REASONS
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import FILE, Counted, Item, OneRange, RawRecord


class Moses(OneRange):
    """Reads both files line by line, plain or compressed; to be named in the recipe, with `target_path`.

    The locator is the line's number from 0. Files of different numbers of lines cannot be aligned, so the unit fails; a
    damaged stream gives the pairs before the damage. Only a count from the start says which line of the other file
    belongs to a line, so a file is one range.

    Example:
        pairs.en `It is raining.`, pairs.de `Es regnet.`
    """

    VERSION: ClassVar[int] = 2
    suffixes: ClassVar[tuple[str, ...]] = ()
    reasons: ClassVar[tuple[str, ...]] = (*REASONS, "bad_utf8", "line_bytes", "unpaired")

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """The other file."""

        target_path: str = field(metadata=FILE)
        """file with the other sides"""

    def __init__(self, options: Options, limits: Limits) -> None:
        self._target = Path(options.target_path)
        self._limits = limits

    def read(self, path: Path, start: int, end: int, account: Account) -> Iterator[Item]:
        """Yield all pairs.

        Raises:
            StorageError: the other file is missing, or one of the two has more lines.
        """
        if not self._target.is_file():
            raise StorageError(f"{self._target}: no such file; `target_path` names the other sides of {path}")
        other = Account()
        sides = [
            ByteLines(one, 0, one.stat().st_size, self._limits, counted, resume=False)
            for one, counted in ((path, account), (self._target, other))
        ]
        cuts: dict[int, Cut] = {}
        for number, lines in enumerate(zip_longest(*sides)):
            present = {side: line[1] for side, line in enumerate(lines) if line is not None}
            cuts |= {side: line for side, line in present.items() if isinstance(line, Cut)}
            whole = [line for line in present.values() if not isinstance(line, Cut)]
            if len(whole) == 2:
                yield self._item(number, *whole)
            elif cuts:
                yield from (Counted("malformed", "unpaired", _length(line)) for line in whole)
            else:
                raise StorageError(
                    f"{path} and {self._target}: one ends after line {number}, the other has more; lines of the same "
                    "number must belong together"
                )
        yield from (Counted("malformed", cuts[side].reason, cuts[side].length) for side in sorted(cuts))
        _join(account, other, self._target.stat().st_size, [side in cuts for side in range(2)])

    def _item(self, number: int, text: bytes | int, target: bytes | int) -> Item:
        if isinstance(text, int) or isinstance(target, int):
            return Counted("malformed", "line_bytes", _length(text) + _length(target))
        length = len(text) + len(target)
        if not text.strip() and not target.strip():
            return Counted("ignored", "blank_line", length)
        try:
            encoding = "utf-8" if number else "utf-8-sig"
            first, second = (side.removesuffix(b"\r").decode(encoding) for side in (text, target))
        except UnicodeDecodeError:
            return Counted("malformed", "bad_utf8", length)
        return RawRecord(number, "moses", length, first, target_text=second)


def _length(line: bytes | int) -> int:
    return line if isinstance(line, int) else len(line)


def _join(account: Account, other: Account, size: int, damaged: Sequence[bool]) -> None:
    """Add the other side to the account: bytes of both, and a record for each number of a line and each damage."""
    lines = [one.records - cut for one, cut in zip((account, other), damaged, strict=True)]
    account.records = max(lines) + sum(damaged)
    account.companion += size
    account.decoded += other.decoded
    account.content += other.content
    account.separators += other.separators
    for reason, count in other.undecoded.items():
        account.pass_over(reason, count)
