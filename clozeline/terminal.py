"""Print tables on a console, and format times and sizes.

Only commands that print tables import it, because its library is slow to load.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.segment import Segment

from clozeline.errors import show_controls

_BYTES: Final = ("bytes", "KB", "MB", "GB", "TB")


class Terminal(Console):
    """A console that escapes control characters of foreign texts.

    80 columns wide if COLUMNS is 0.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.width = self.width or 80

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        shown = (
            part if part.control else part._replace(text=show_controls(part.text))
            for part in buffer
        )
        return super()._render_buffer(shown)


def pad_text(text: str, columns: int, *, right: bool = False) -> str:
    """Return a text padded with spaces to a number of columns, on the left if `right`.

    An East Asian letter or an emoji takes two columns, a combining mark none. A wider text is
    returned unchanged.
    """
    spaces = " " * (columns - cell_len(text))
    return spaces + text if right else text + spaces


def align_rows(rows: Sequence[Sequence[str]], *, right: bool = False) -> Iterator[str]:
    """Yield the rows of a table as lines; `right` right-aligns all columns but the first."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        padded = [
            pad_text(cell, width, right=right and number > 0)
            for number, (cell, width) in enumerate(cells)
        ]
        yield "  ".join(padded).rstrip()


def wrap_text(text: str, columns: int, indent: str = "", hanging: str = "") -> list[str]:
    """Return a text in lines of at most `columns` columns, broken at spaces; long words are cut.

    The first line begins with `indent`, the others with `hanging`, which is not shorter.
    """
    width = columns - len(hanging)
    lines = list[str]()
    line = indent
    has_word = False

    for word in text.split(" "):
        parts = chop_cells(word, width) if cell_len(word) > width else [word]
        for number, part in enumerate(parts):
            joined = f"{line} {part}" if has_word else line + part
            if has_word and (number or cell_len(joined) > columns):
                lines.append(line)
                joined = hanging + part
            line = joined
            has_word = True

    return [*lines, line]


def duration(seconds: float) -> str:
    """Return a time in readable units: 0.1 s, 24.6 s, 1 min 50 s, 2 h 3 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, remainder = divmod(round(seconds), 60)
    return (
        f"{minutes} min {remainder} s"
        if minutes < 60
        else f"{minutes // 60:,} h {minutes % 60} min"
    )


def time_left(seconds: float) -> str:
    """Return the time left in hours, minutes and seconds: 0:49:00 left."""
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{remainder:02} left"


def duration_text(seconds: float) -> str:
    """Return a time in its largest unit: `45 s`, `6 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def size_text(size: float) -> str:
    """Return a size in decimal units: `7.3 GB`."""
    for unit in _BYTES[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == _BYTES[0] else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {_BYTES[-1]}"
