"""Read comma-separated files, compressed or not: each row is a document."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Annotated, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines, Line
from clozeline.pipeline.ingest.formats.decompression import DAMAGE_REASONS, Damage, InputFile
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

    VERSION = 5
    has_header = True
    suffixes = (".csv",)
    reasons = (
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
        source = ByteLines(path, start, end, self._limits)
        # a line right after damage may be partial
        lines = (
            (offset, Damage(_RESYNC) if source.is_after_damage else line) for offset, line in source
        )
        waiting: deque[tuple[int, Line]] = deque()
        names = self._options.columns
        delimiter = self._options.delimiter
        if delimiter is None:
            first = _RowLines()
            delimiter = _find_delimiter(next(self._decode_lines(lines, waiting, first, path), ""))
            waiting.extend(first.taken)
            if delimiter != ",":
                yield SkippedRecord("note", f"delimiter {delimiter!r}")

        while True:
            taken = _RowLines()
            decoded = self._decode_lines(lines, waiting, taken, path)
            row: list[str] | None = None

            try:
                row = next(csv.reader(decoded, delimiter=delimiter, strict=True))
            except StopIteration:
                if not taken.taken:
                    return
            except csv.Error as error:
                # the quotes of the first line may be wrong: the second one starts the next row
                if not taken.is_cut:
                    taken.fault = Damage("bad_csv")
                    taken.why = str(error)
                    waiting.extendleft(reversed(taken.taken[1:]))

            if taken.fault is not None and taken.fault.reason == _RESYNC:
                yield SkippedRecord("note", _RESYNC)
            elif names is None and row and row[0] == "sep=":  # the delimiter, for Excel
                yield SkippedRecord("ignored", "header")
            elif names is not None or row == []:
                yield self._make_item(row, names or [], taken)
            elif row is not None and taken.fault is None:
                names = row
                yield SkippedRecord("ignored", "header")
            else:
                names = []  # the header is lost, and no other row may replace it
                yield self._make_item(row, names, taken)

    def _decode_lines(
        self,
        lines: Iterator[tuple[int, Line]],
        waiting: deque[tuple[int, Line]],
        row: _RowLines,
        path: InputFile,
    ) -> Iterator[str]:
        """Yield the text of the lines from the next one on, up to damage, and list them in `row`.

        `waiting` are the lines before `lines`.
        """
        while len(row.taken) < _MOST_LINES:
            waiting.extend(islice(lines, 0 if waiting else 1))
            if not waiting:
                return
            offset, line = waiting.popleft()
            row.taken.append((offset, line))

            if isinstance(line, bytes):
                raw = line.removeprefix(b"\xef\xbb\xbf") if offset == 0 else line
                try:
                    text = self.decode(raw, path)
                except UnicodeDecodeError as error:
                    text = raw.decode("utf-8", "replace")
                    row.fault = row.fault or Damage("bad_utf8")
                    row.why = str(error)
                yield text + "\n"
            elif line.reason == "line_bytes":
                row.fault = row.fault or line
                yield "\n"
            else:
                row.fault = line
                row.is_cut = True
                return

    def _make_item(self, row: list[str] | None, names: list[str], lines: _RowLines) -> Item:
        offset = lines.taken[0][0]
        if lines.fault is not None:
            return replace(SkippedRecord.from_damage(lines.fault, offset), detail=lines.why)
        if not row:
            return SkippedRecord("ignored", "blank_line")
        if why := self._records.explain_unusable(names):
            return SkippedRecord("malformed", "schema", offset, why)
        if len(row) != len(names):
            why = f"it has {len(row)} fields instead of {len(names)}"
            return self._records.reject("fields", offset, why, row)
        length = sum(len(line) + 1 for _, line in lines.taken if isinstance(line, bytes)) - 1
        return self._records.make(dict(zip(names, row, strict=True)), "csv", offset, length)


@dataclass
class _RowLines:
    """The lines of one row with their offsets, and the fault of one of them."""

    taken: list[tuple[int, Line]] = field(default_factory=list)
    fault: Damage | None = None
    is_cut: bool = False
    """true if the fault ends the row"""
    why: str = ""
    """what is wrong with the encoding or the quotes"""


def _find_delimiter(line: str) -> str:
    """Return the delimiter of a first line: a comma if present, else as `csv.Sniffer` finds it."""
    if "," in line:
        return ","
    try:
        return csv.Sniffer().sniff(line[:_SNIFFED_CHARACTERS], ";\t|").delimiter
    except csv.Error:
        return ","
