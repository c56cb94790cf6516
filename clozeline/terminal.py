"""Print tables on a console, and format times and sizes.

Only commands that print tables import it, because its library is slow to load.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rich.cells import cell_len
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


def align_rows(rows: Sequence[Sequence[str]], *, right: bool = False) -> Iterator[str]:
    """Yield the rows of a table as lines; `right` right-aligns all columns but the first.

    An East Asian letter or an emoji takes two columns, a combining mark none.
    """
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = list[str]()
        for cell, width in zip(row, widths, strict=True):
            spaces = " " * (width - cell_len(cell))
            padded.append(spaces + cell if right and padded else cell + spaces)
        yield "  ".join(padded).rstrip()


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
