"""What tools show, as values: sections of passages, tables, grids and charts.

`terminal_view` draws each value for a terminal, `html_page` for pages and notebooks.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

from clozeline.errors import share_text

_QUANTITY: Final = re.compile(
    r"-?\d[\d,]*(\.\d+)?(e[-+]\d+)?( ?(%|s|bytes|[KMGTP]B|[kMG]))?|[\d,]+ (min|h) \d+ (s|min)"
)
# Most bars of a chart.
_BARS: Final = 20
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
Points: TypeAlias = Sequence[tuple[float, float]]


class Span(NamedTuple):
    """Text in a role, such as that of a token; a page shows the remark when one points at it."""

    text: str
    role: str = ""
    remark: str = ""


Cell: TypeAlias = str | int | float | Span


@dataclass(frozen=True, slots=True)
class Passage:
    """Running text in which roles are marked, with its origin below."""

    title: str
    spans: tuple[Span, ...]
    origin: str = ""

    @staticmethod
    def of(text: str, origin: str = "", *, role: str = "") -> "Passage":
        """Return text of one role, without a title."""
        return Passage("", (Span(text, role),), origin)

    @property
    def text(self) -> str:
        """The text without roles."""
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True, slots=True)
class Table:
    """A table; without a header it lists names and values.

    Without a title too, its values are the figures at the head of a page.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def shorten(self, rows: int, rest: str = "") -> "Table":
        """Return the table with at most `rows` rows, and a last row that counts the others."""
        if len(self.rows) <= rows:
            return self
        others = (f"… {len(self.rows) - rows:,} more{rest}", *[""] * (len(self.rows[0]) - 1))
        return replace(self, rows=(*self.rows[:rows], others))


Block: TypeAlias = Sequence[tuple[str, Sequence[Span]]]
"""Named lines of equally many words, aligned below each other."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Blocks of lines, whose words begin after the longest name."""

    blocks: Sequence[Block]


@dataclass(frozen=True)
class Series:
    """A named line: points (x, y), sorted by x."""

    name: str
    points: Points
    smooth: bool = False
    """true to draw the running mean of a long line, and the line itself pale"""


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines on shared axes; nothing is drawn if no series has a finite point.

    `levels` are dashed horizontal lines, by name.
    """

    title: str
    series: Sequence[Series]
    x_name: str
    levels: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Bars:
    """Counts as bars, the twenty largest first; others are summed, and zeros left out.

    `total` is the count of a full bar, and shares of it are shown; None: the largest count is one.
    """

    title: str
    counts: Mapping[str, int]
    total: int | None = None

    @property
    def rows(self) -> list[tuple[str, str, float]]:
        """Name, text and share of a full bar of each count."""
        counts = ((name, count) for name, count in self.counts.items() if count)
        items = sorted(counts, key=lambda item: (-item[1], item[0]))
        if others := items[_BARS:]:
            others.insert(0, items[_BARS - 1])
            total = sum(count for _, count in others)
            items = [*items[: _BARS - 1], (f"{len(others):,} others", total)]
        full = self.total or max((count for _, count in items), default=1)
        return [
            (
                name,
                f"{count:,}{f' · {share_text(count / full)}' * bool(self.total)}",
                min(1, count / full),
            )
            for name, count in items
        ]


@dataclass(frozen=True, slots=True)
class Section:
    """A title with parts below: the whole that a tool shows, or a section of it."""

    title: str
    parts: Sequence["Part"]
    is_folded: bool = False
    """a page shows the parts after a click on the title"""
    is_row: bool = False
    """a page shows the parts side by side where they fit"""


Part: TypeAlias = str | Passage | Table | Grid | Chart | Bars | Section
"""`str`: a paragraph"""


def is_empty(part: Part) -> bool:
    """Return whether a part shows nothing, so that no drawer draws even its title."""
    match part:
        case Section(_, parts):
            return all(map(is_empty, parts))
        case Table() | Bars():
            return not part.rows
        case Chart(_, series):
            return not any(math.isfinite(y) for line in series for _, y in line.points)
    return part == ""


def cell_text(cell: Cell) -> str:
    """Return the text of a cell: whole numbers with commas, others with two digits."""
    if isinstance(cell, Span):
        return cell.text
    return (
        cell if isinstance(cell, str) else f"{cell:,}" if isinstance(cell, int) else f"{cell:,.2f}"
    )


def merge_equal(named: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return names and values, with a single entry for equal values, which names all of them."""
    names: dict[Any, list[str]] = {}
    for name, value in named:
        names.setdefault(value, []).append(name)
    return [("; ".join(alike), value) for value, alike in names.items()]


def is_number(cell: Cell) -> bool:
    """Return whether a cell is set right: a number, also as text with a unit (`1.5 MB`)."""
    return isinstance(cell, int | float) or _QUANTITY.fullmatch(cell_text(cell)) is not None


def visible(text: str) -> str:
    """Replace line ends, tabs and invisible characters with visible symbols."""
    shown = text.replace("\n", "⏎\n").replace("\t", "⇥\t")
    return _INVISIBLE.sub(lambda match: f"<U+{ord(match.group()):04X}>", shown)
