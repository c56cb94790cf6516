"""Read comma-separated files, compressed or not: each row is a document."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import field
from itertools import islice
from typing import Annotated, ClassVar, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines, DamagedLine, Line
from clozeline.pipeline.ingest.formats.decompression import DAMAGE_REASONS, InputFile
from clozeline.pipeline.ingest.readers import Item, SkippedRecord
from clozeline.pipeline.ingest.readers._exported import BAD_DOCUMENT
from clozeline.pipeline.ingest.readers._rows import EncodingOptions, FieldOptions, RowReader

_SNIFFED_CHARACTERS: Final = 4096
"""Characters of a line in which `csv.Sniffer` looks for the delimiter; it takes quadratic time."""
_RESYNC: Final = "resync"
_MOST_LINES: Final = 1 << 20
"""Maximum lines of a row, which stay in memory in case its quotes are wrong."""


class CsvReader(RowReader):
    r"""Reads rows by RFC 4180.

    A field in double quotes may contain delimiters, line ends and doubled quotes.

    The first row names the columns, unless `columns` does. The locator is the offset of the row in
    the decompressed stream. A row with more or fewer fields is counted as `fields`. If quotes are
    wrong or unclosed, the first line of the row is counted as `bad_csv`, and its second line starts
    the next row. Whether a line starts a row depends on all quotes before it, so a file is a single
    range. Without `delimiter`, `csv.Sniffer` finds it in a first line without a comma, and any
    other delimiter is noted. A first line `sep=;` is skipped.

    Example:
        `id,text` and `1,"It is ""raining"",\n and cold."` give the text `It is "raining",\n and
        cold.`
    """

    VERSION: ClassVar[int] = 4
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    reasons: ClassVar[tuple[str, ...]] = (
        *DAMAGE_REASONS,
        BAD_DOCUMENT,
        "bad_csv",
        "bad_utf8",
        "empty",
        "fields",
        "line_bytes",
        "schema",
    )

    @config_class
    class Options(FieldOptions, EncodingOptions):
        delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
        """character between two fields, such as `;`; default: found in the first line"""
        columns: Annotated[list[str], Field(min_length=1)] | None = field(default=None)
        """column names of a file without a header; default: the first row"""

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        # a process-wide setting of the standard library; all readers of a run use the same value
        csv.field_size_limit(self._limits.line_bytes)
        lines = _mark_partial_lines(ByteLines(path, start, end, self._limits))
        waiting: deque[tuple[int, Line]] = deque()
        names = self._options.columns
        delimiter = self._options.delimiter
        if delimiter is None:
            waiting.extend(islice(lines, 1))
            delimiter = _find_delimiter(_RowLines(iter([*waiting]).__next__, self._options))
            if delimiter != ",":
                yield SkippedRecord("note", f"delimiter {delimiter!r}")

        while True:
            lines_of_row = _RowLines(
                lambda: waiting.popleft() if waiting else next(lines), self._options
            )
            row: list[str] | None = None

            try:
                row = next(csv.reader(lines_of_row, delimiter=delimiter, strict=True))
            except StopIteration:
                if not lines_of_row.taken:
                    return
            except csv.Error:
                waiting.extendleft(reversed(lines_of_row.keep_first()))

            if lines_of_row.problem == _RESYNC:
                yield SkippedRecord("note", _RESYNC)
            elif names is None and row and row[0] == "sep=":  # the delimiter, for Excel
                yield SkippedRecord("ignored", "header")
            elif names is not None or row == []:
                yield self._make_item(row, names or [], lines_of_row)
            elif row is not None and not lines_of_row.problem:
                names = row
                yield SkippedRecord("ignored", "header")
            else:
                names = []  # the header is lost, and no other row may replace it
                yield self._make_item(row, names, lines_of_row)

    def _make_item(self, row: list[str] | None, names: list[str], lines: _RowLines) -> Item:
        offset = lines.taken[0][0]
        problem = lines.problem or ("bad_csv" if row is None else "")
        if problem:
            return SkippedRecord("malformed", problem, offset, lost_bytes=lines.lost_bytes)
        if not row:
            return SkippedRecord("ignored", "blank_line")
        if why := self._records.explain_unusable(names):
            return SkippedRecord("malformed", "schema", offset, why)
        if len(row) != len(names):
            return self._records.reject("fields", offset, cells=row)
        return self._records.make(dict(zip(names, row, strict=True)), "csv", offset, lines.length)


def _find_delimiter(lines: _RowLines) -> str:
    """Return the delimiter of a first line: a comma if present, else as `csv.Sniffer` finds it."""
    line = next(lines, "")
    try:
        return (
            ","
            if "," in line
            else csv.Sniffer().sniff(line[:_SNIFFED_CHARACTERS], ";\t|").delimiter
        )
    except csv.Error:
        return ","


def _mark_partial_lines(lines: ByteLines) -> Iterator[tuple[int, Line]]:
    """Yield the lines; one right after damage may be partial and counts as damaged."""
    for offset, line in lines:
        yield (
            offset,
            DamagedLine(_RESYNC)
            if lines.is_after_damage and not isinstance(line, DamagedLine)
            else line,
        )


class _RowLines:
    """The lines of one row as text; `problem` is the fault of one of them."""

    def __init__(self, pull: Callable[[], tuple[int, Line]], options: EncodingOptions) -> None:
        self._pull = pull
        self._options = options
        self.taken: list[tuple[int, Line]] = []
        self._problems: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if len(self.taken) == _MOST_LINES:
            raise csv.Error("more lines than a row may have")
        offset, line = self._pull()
        text = ""
        problem = ""

        if isinstance(line, int):
            problem = "line_bytes"
        elif isinstance(line, DamagedLine):
            problem = line.reason
        else:
            raw = line.removeprefix(b"\xef\xbb\xbf") if offset == 0 else line
            try:
                text = self._options.decode(raw)
            except UnicodeDecodeError:
                text = raw.decode("utf-8", "replace")
                problem = "bad_utf8"

        self.taken.append((offset, line))
        self._problems.append(problem)
        if isinstance(line, DamagedLine):
            raise StopIteration
        return text + "\n"

    @property
    def problem(self) -> str:
        return next(filter(None, self._problems), "")

    @property
    def length(self) -> int:
        return sum(len(line) + 1 for _, line in self.taken if isinstance(line, bytes)) - 1

    @property
    def lost_bytes(self) -> int:
        """Undecodable bytes of a compressed file behind the last line."""
        last = self.taken[-1][1]
        return last.lost_bytes if isinstance(last, DamagedLine) else 0

    def keep_first(self) -> list[tuple[int, Line]]:
        """Take only the first line, whose quotes may be wrong, and return the others.

        None of the lines of a cut row is returned.
        """
        if isinstance(self.taken[-1][1], DamagedLine):
            self._problems = self._problems[-1:]
            return []
        others = self.taken[1:]
        self.taken = self.taken[:1]
        self._problems = self._problems[:1]
        return others
