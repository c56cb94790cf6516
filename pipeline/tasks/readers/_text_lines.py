r"""Read the lines of text files: split at `\n` only, without a byte order mark; a bad byte costs a single line."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Final, TypeVar

from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines, Cut
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers._task_items import Rejected, keep_texts

A = TypeVar("A")
B = TypeVar("B")

_BOM: Final = "\ufeff"


def text_lines(path: Path, limits: Limits, encoding: str = "utf-8") -> Iterator[tuple[int, str | Rejected]]:
    r"""Yield the index and the text of each line of a plain or compressed file, without `\n` or `\r\n`."""
    # after damage the line numbers are unknown: do not resume
    lines = ByteLines(path, 0, path.stat().st_size, limits, Account(), resume=False)
    for number, (_, line) in enumerate(lines):
        if isinstance(line, Cut):
            yield number, Rejected(line.reason, number)
        elif isinstance(line, int):
            yield number, Rejected("line_bytes", number)
        else:
            try:
                text = line.decode(encoding)
            except UnicodeDecodeError:
                yield number, Rejected("bad_utf8", number)
                continue
            yield number, (text.removeprefix(_BOM) if number == 0 else text).removesuffix("\r")


def parse_score(text: str, low: float, high: float) -> float | None:
    """Return the number that a text spells; None if it spells none from `low` to `high`."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if low <= number <= high else None


def align_lines(
    first: Iterable[tuple[int, A | Rejected]], second: Iterable[tuple[int, B | Rejected]]
) -> Iterator[tuple[A, B] | Rejected]:
    """Yield pairs of lines, or why one is missing: `unaligned`, or its own reason, with the text of the other."""
    for index, (left, right) in enumerate(zip_longest(first, second)):
        if left is None or right is None:
            yield keep_texts(Rejected("unaligned", index), [left and left[1], right and right[1]])
        elif isinstance(left[1], Rejected):
            yield keep_texts(replace(left[1], index=index), right[1])
        elif isinstance(right[1], Rejected):
            yield keep_texts(replace(right[1], index=index), left[1])
        else:
            yield left[1], right[1]
