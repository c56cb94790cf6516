"""Read comma-separated files, plain or compressed: a row is a document."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, ClassVar, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines, Cut
from clozeline.pipeline.ingest.formats.decompression import REASONS, InputFile
from clozeline.pipeline.ingest.readers import Counted, Item, Reader
from clozeline.pipeline.ingest.readers._fields import FieldOptions, explain_unusable, make_record
from clozeline.pipeline.ingest.readers._lines import EncodingOptions

_MOST_LINES: Final = 1 << 20  # maximum lines of a row, kept in memory in case its quotes are wrong


class Csv(Reader):
    r"""Reads rows by RFC 4180: a field in double quotes may contain delimiters, line ends and doubled quotes.

    The first row names the columns, unless `columns` does. The locator is the offset of the row in the decompressed
    stream. A row with more or fewer fields is counted as `fields`. If the quotes of a row are wrong or unclosed, its
    first line is counted as `bad_csv`, and the next row starts at the second line. Whether a line starts a row depends
    on all quotes before it, so a file is one range.

    Example:
        `id,text` and `1,"It is ""raining"",\n and cold."` give the text `It is "raining",\n and cold.`
    """

    VERSION: ClassVar[int] = 2
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    reasons: ClassVar[tuple[str, ...]] = (
        *REASONS, "bad_csv", "bad_utf8", "empty", "fields", "line_bytes", "schema",
    )  # fmt: skip

    @config_class
    class Options(FieldOptions, EncodingOptions):
        delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
        """character between two fields, such as `;`"""
        columns: Annotated[list[str], Field(min_length=1)] | None = field(default=None)
        """column names of a file without a header; default: the first row"""

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        # a process-wide setting of the standard library; all readers of a run use the same value
        csv.field_size_limit(self._limits.line_bytes)
        lines = _Lines(ByteLines(path, start, end, self._limits), self._options)
        rows = csv.reader(lines, delimiter=self._options.delimiter, strict=True)
        names = self._options.columns
        while True:
            lines.begin_row()
            row: list[str] | None = None
            try:
                row = next(rows)
            except StopIteration:
                break
            except _CutRow as damage:
                lines.problem = damage.cut.reason
            except csv.Error:
                lines.keep_first()
            finally:
                # lines right after damage, which may be the rest of a row
                yield from (Counted("note", "resync") for _ in range(lines.skipped))
                lines.skipped = 0
            if names is not None or row == []:
                yield self._make_item(row, names or [], lines)
            elif row is not None and not lines.problem:
                names = row
                yield Counted("ignored", "header")
            else:
                names = []  # the header is lost; no other row may replace it
                yield self._make_item(row, names, lines)

    def _make_item(self, row: list[str] | None, names: list[str], lines: _Lines) -> Item:
        if lines.problem:
            return Counted("malformed", lines.problem, lines.offset)
        if row is None:
            return Counted("malformed", "bad_csv", lines.offset)
        if not row:
            return Counted("ignored", "blank_line")
        if why := explain_unusable(self._options.text_key, names):
            return Counted("malformed", "schema", lines.offset, why)
        if len(row) != len(names):
            return Counted("malformed", "fields", lines.offset)
        fields = dict(zip(names, row, strict=True))
        return make_record(fields, self._options, "csv", lines.offset, lines.length + lines.count - 1)


class _CutRow(Exception):
    """Damage of a compressed file cuts the current row."""

    def __init__(self, cut: Cut) -> None:
        super().__init__(cut.reason)
        self.cut = cut


class _Lines:
    """Lines of a file as text, with offset, length and number of lines of the current row."""

    def __init__(self, source: ByteLines, options: EncodingOptions) -> None:
        self._options, self._source, self._lines = options, source, iter(source)
        self._pushed_back: deque[tuple[int, bytes | int]] = deque()
        self.skipped = 0
        self.begin_row()

    def begin_row(self) -> None:
        self._row: list[tuple[int, bytes | int]] = []
        self.offset, self.length, self.count, self.problem = 0, 0, 0, ""

    def keep_first(self) -> None:
        """Push back all lines of the row but the first: its quotes may be wrong, and the others rows."""
        self._pushed_back.extendleft(reversed(self._row[1:]))
        first = self._row[0]
        self.begin_row()
        self._add_line(*first)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._pushed_back:
            return self._add_line(*self._pushed_back.popleft())
        for offset, line in self._lines:
            if isinstance(line, Cut):
                if not self.count:
                    self.offset = offset
                raise _CutRow(line)
            if not self._source.rest:
                return self._add_line(offset, line)
            self.skipped += 1
        raise StopIteration

    def _add_line(self, offset: int, line: bytes | int) -> str:
        if not self.count:
            self.offset = offset
        if self.count == _MOST_LINES:
            self._pushed_back.appendleft((offset, line))
            raise csv.Error("more lines than a row may have")
        self.count += 1
        self.length += line if isinstance(line, int) else len(line)
        self._row.append((offset, line))
        if isinstance(line, int):
            self.problem = "line_bytes"
            return "\n"
        raw = line.removeprefix(b"\xef\xbb\xbf") if offset == 0 else line
        try:
            return self._options.decode(raw) + "\n"
        except UnicodeDecodeError:
            self.problem = "bad_utf8"
            return raw.decode("utf-8", "replace") + "\n"
