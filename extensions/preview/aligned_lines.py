"""Print a corrupted text as textbooks do: labels, answers and segments below the input tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from clozeline.report.console_view import STYLES

Cell: TypeAlias = tuple[str, str]
"""a word, and its style"""
PREFIX_END: Final[Cell] = ("|", "marker")
"""sign between the prefix and the rest"""


@dataclass(frozen=True, slots=True)
class AlignedLines:
    """Lines of equally many cells, aligned below each other, each with a title."""

    lines: tuple[tuple[str, Sequence[Cell]], ...]

    @staticmethod
    def of_words(title: str, words: Sequence[str]) -> "AlignedLines":
        """Return a block of one line without styles."""
        return AlignedLines(((title, [(word, "") for word in words]),))


def align_blocks(blocks: Sequence[AlignedLines], width: int | None = None) -> Iterator[Text]:
    """Yield the lines of blocks; the cells of all lines begin after the longest title.

    Lines of more than `width` columns continue on further lines, block by block.
    """
    titles = [title for block in blocks for title, _ in block.lines]
    indent = max(map(cell_len, titles)) + 2
    for block in blocks:
        columns = list(zip(*(cells for _, cells in block.lines), strict=True))
        widths = [max(cell_len(word) for word, _ in column) for column in columns]
        for first, last in _parts(widths, None if width is None else width - indent):
            for title, cells in block.lines:
                line = Text(_pad(title if first == 0 else "", indent))
                for (word, style), size in zip(cells[first:last], widths[first:last], strict=True):
                    line.append(word, style).append(_pad("", size - cell_len(word) + 1))
                line.rstrip()
                yield line


def _pad(text: str, columns: int) -> str:
    return text + " " * (columns - cell_len(text))


def _parts(widths: Sequence[int], room: int | None) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the columns that fit one line; a column that is too wide stands alone."""
    first = 0
    used = 0
    for column, size in enumerate(widths):
        if room is not None and column > first and used + size > room:
            yield first, column
            first = column
            used = 0
        used += size + 1
    yield first, len(widths)


def print_blocks(blocks: Sequence[AlignedLines], console: Console) -> None:
    """Print blocks in colors; only a terminal breaks long lines."""
    with console.use_theme(STYLES):
        for line in align_blocks(blocks, console.width if console.is_terminal else None):
            console.print(line, soft_wrap=True)
