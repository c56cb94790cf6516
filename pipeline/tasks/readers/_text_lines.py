r"""Lines of text files: split at `\n` alone, without a byte order mark, one bad byte costs one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final, TypeVar

from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines, Cut, Line
from clozeline.pipeline.ingest.formats.charset import as_utf8
from clozeline.pipeline.ingest.formats.decompression import REASONS, Damage, decompress_file
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers._task_items import Rejected

A = TypeVar("A")
B = TypeVar("B")

_BOM: Final = "\ufeff"
LINE_REASONS: Final = (*REASONS, "bad_utf8", "line_bytes")
"""Reasons for which a line has no text."""


def text_lines(path: Path, limits: Limits) -> Iterator[tuple[int, str | Rejected]]:
    r"""Yield the number of each line with its text, without `\n` or `\r\n`.

    Args:
        path: the file, plain or compressed.
        limits: bounds on lines and decompression.
    """
    # After damage nobody knows the numbers of lines.
    lines = ByteLines(path, 0, path.stat().st_size, limits, Account(), resume=False)
    for number, (_, line) in enumerate(lines):
        yield number, _text(line, number)


def line_count(path: Path, limits: Limits) -> int:
    r"""Return how many lines `text_lines` has to yield: one for each `\n`, and one that the end of the file ends."""
    count, rest = 0, False
    for piece in as_utf8(decompress_file(path, limits, resume=False), Account()):
        if isinstance(piece, Damage):
            return count + 1
        count += piece.count(b"\n")
        rest = not piece.endswith(b"\n") if piece else rest
    return count + rest


def align_lines(
    first: Iterable[tuple[int, A | Rejected]], second: Iterable[tuple[int, B | Rejected]]
) -> Iterator[tuple[A, B] | str]:
    """Yield both lines of each place of two files, or why there are not both: `unaligned`, or a line's own reason."""
    for one, other in zip_longest(first, second):
        if one is None or other is None:
            yield "unaligned"
        elif isinstance(one[1], Rejected):
            yield one[1].reason
        elif isinstance(other[1], Rejected):
            yield other[1].reason
        else:
            yield one[1], other[1]


def _text(line: Line, number: int) -> str | Rejected:
    if isinstance(line, Cut):
        return Rejected(line.reason, number)
    if isinstance(line, int):
        return Rejected("line_bytes", number)
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return Rejected("bad_utf8", number)
    return (text.removeprefix(_BOM) if number == 0 else text).removesuffix("\r")
