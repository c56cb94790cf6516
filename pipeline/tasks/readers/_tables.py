"""Read tab-separated tables, without quoting, and detect their layout from the first line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers._task_items import Rejected
from clozeline.pipeline.tasks.readers._text_lines import text_lines

_SHOWN: Final = 80


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """The columns of a table."""

    name: str
    """name in reports and messages"""
    texts: tuple[str, ...]
    """columns of the text or of both texts"""
    label: str | None = "label"
    """column of the label; None if there is none"""
    cells: tuple[tuple[str, int], ...] = ()
    """class index of each value of the label column; empty if it holds a score"""
    also: tuple[str, ...] = ()
    """further columns that a header must name"""
    columns: tuple[str, ...] | None = None
    """all columns of a table without header; None if the first line is a header with the columns above, in any order"""
    objects: bool = False
    """true if the file holds JSON lines with the columns as keys"""

    @property
    def has_labels(self) -> bool:
        """True if the rows have labels."""
        return self.label is not None

    @property
    def _header_columns(self) -> set[str]:
        return {*self.texts, *self.also, *([] if self.label is None else [self.label])}

    def fits(self, first: Sequence[str]) -> bool:
        """Return whether the first line of a file has this layout."""
        if self.columns is None:
            return len(set(first)) == len(first) and self._header_columns <= set(first)
        if len(first) != len(self.columns):
            return False
        cell = "" if self.label is None else first[self.columns.index(self.label)]
        return self.label is None or cell in dict(self.cells)

    def describe(self) -> str:
        """Return the layout in words, for a message."""
        if self.columns is None:
            return f"{self.name}: a header with {', '.join(sorted(self._header_columns))}"
        values = f" ({self.label}: {' or '.join(cell for cell, _ in self.cells)})" if self.has_labels else ""
        return f"{self.name}: no header, the fields {', '.join(self.columns)}{values}"


def table_rows(path: Path, limits: Limits) -> Iterator[tuple[int, list[str] | Rejected]]:
    """Yield the index and the tab-separated fields of each line.

    Quotes are ordinary characters: with `csv`, a stray quote would join lines and silently lose rows.
    """
    for number, line in text_lines(path, limits):
        if isinstance(line, Rejected):
            yield number, line
        else:
            yield number, line.split("\t") if line.strip() else Rejected("blank_line", number)


def detect_layout(path: Path, layouts: Sequence[TableLayout], limits: Limits) -> TableLayout:
    """Return the first layout that matches the first line of a file; ConfigurationError if there is none."""
    _, first = next(table_rows(path, limits), (0, Rejected("empty file", 0)))
    if isinstance(first, Rejected):
        raise ConfigurationError(f"{path}: the first line cannot be read ({first.reason}): expected a table of fields")
    return match_layout(path, layouts, first)


def match_layout(path: Path, layouts: Sequence[TableLayout], first: Sequence[str]) -> TableLayout:
    """Return the first layout that matches the columns of a file; ConfigurationError if there is none."""
    for layout in layouts:
        if layout.fits(first):
            return layout
    known = "; ".join(layout.describe() for layout in layouts)
    shown = " | ".join(field if len(field) <= _SHOWN else f"{field[:_SHOWN]}…" for field in first)
    raise ConfigurationError(f"{path}: expected a layout of this task ({known}), got {len(first)} fields: {shown}")
