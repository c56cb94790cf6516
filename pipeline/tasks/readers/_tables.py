"""Tables of tab-separated fields in which quotes have no meaning, and the layouts that their first line shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers._task_items import Rejected
from clozeline.pipeline.tasks.readers._text_lines import LINE_REASONS, text_lines

_SHOWN: Final = 80
TABLE_REASONS: Final = (*LINE_REASONS, "blank_line", "fields")
"""Reasons for which a line is no row."""


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """Columns of a table, as its first line shows them.

    Args:
        name: in reports and messages.
        texts: columns of the text, or of the two texts.
        label: column of the label; None: the rows have none.
        cells: number of the class that each content of the label column means; empty: it holds a number.
        also: further columns that a header must name.
        columns: all columns in their order, of a table without header; None: its first line is a header that names the
            columns above, in any order and among others.
        objects: true of lines of JSON, each with the columns as names.
    """

    name: str
    texts: tuple[str, ...]
    label: str | None = "label"
    cells: tuple[tuple[str, int], ...] = ()
    also: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    objects: bool = False

    @property
    def has_labels(self) -> bool:
        """True if its rows have labels."""
        return self.label is not None

    @property
    def _header_columns(self) -> set[str]:
        return {*self.texts, *self.also, *([] if self.label is None else [self.label])}

    def fits(self, first: Sequence[str]) -> bool:
        """Return whether the fields of a first line are those of this layout."""
        if self.columns is None:
            return len(set(first)) == len(first) and self._header_columns <= set(first)
        if len(first) != len(self.columns):
            return False
        cell = "" if self.label is None else first[self.columns.index(self.label)]
        return self.label is None or cell in dict(self.cells)

    def describe(self) -> str:
        """Return it for a message."""
        if self.columns is None:
            return f"{self.name}: a header with {', '.join(sorted(self._header_columns))}"
        held = f" ({self.label}: {' or '.join(cell for cell, _ in self.cells)})" if self.has_labels else ""
        return f"{self.name}: no header, the fields {', '.join(self.columns)}{held}"


def table_rows(path: Path, limits: Limits) -> Iterator[tuple[int, list[str] | Rejected]]:
    r"""Yield the number of each line with its fields: every tab separates two, every `\n` or `\r\n` ends a line.

    Quotes have no meaning: with that of `csv`, a stray one would join lines, and rows would be lost silently.

    Args:
        path: the file, plain or compressed.
        limits: bounds on lines and decompression.
    """
    for number, line in text_lines(path, limits):
        if isinstance(line, Rejected):
            yield number, line
        else:
            yield number, line.split("\t") if line.strip() else Rejected("blank_line", number)


def detect_layout(path: Path, layouts: Sequence[TableLayout], limits: Limits) -> TableLayout:
    """Return the first layout that the first line of a file fits.

    Raises:
        ConfigurationError: there is none.
    """
    _, first = next(table_rows(path, limits), (0, Rejected("empty file", 0)))
    if isinstance(first, Rejected):
        raise ConfigurationError(f"{path}: the first line cannot be read ({first.reason}): expected a table of fields")
    return match_layout(path, layouts, first)


def match_layout(path: Path, layouts: Sequence[TableLayout], first: Sequence[str]) -> TableLayout:
    """Return the first layout that the columns of a file fit.

    Raises:
        ConfigurationError: there is none.
    """
    for layout in layouts:
        if layout.fits(first):
            return layout
    known = "; ".join(layout.describe() for layout in layouts)
    shown = " | ".join(field if len(field) <= _SHOWN else f"{field[:_SHOWN]}…" for field in first)
    raise ConfigurationError(f"{path}: expected a layout of this task ({known}), got {len(first)} fields: {shown}")
