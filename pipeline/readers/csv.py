"""Comma-separated files, plain or compressed: a row is a document."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.formats.account import Account
from pipeline.formats.byte_lines import ByteLines
from pipeline.formats.decompression import REASONS
from pipeline.formats.limits import Limits
from pipeline.readers import Counted, Item, OneRange
from pipeline.readers._fields import FIELD_REASONS, FieldOptions, lacks, record_of

__all__ = ["Csv"]


class Csv(OneRange):
    r"""Reads rows as RFC 4180 has them: a field in double quotes may hold delimiters, line ends and doubled quotes.

    The first row names the columns, unless `columns` does. The locator is the offset of the row's first line in the
    decompressed stream. A row with more or fewer fields is counted as `fields`; one whose quotes do not end takes all
    lines up to the limit of a line, or to the end of the file, and is counted as `bad_csv`. Only the quotes before a
    line say whether it begins a row, so a file is one range.

    Example:
        `id,text` and `1,"It is ""raining"",\n and cold."` give the text `It is "raining",\n and cold.`
    """

    VERSION: ClassVar[int] = 1
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    reasons: ClassVar[tuple[str, ...]] = (
        *REASONS, *FIELD_REASONS, "bad_utf8", "line_bytes", "fields", "bad_csv", "schema",
    )  # fmt: skip

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(FieldOptions):
        """Names of the columns, and how they are divided."""

        delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
        """character between two fields, such as `;`"""
        columns: Annotated[list[str], Field(min_length=1)] | None = field(default=None)
        """names of the columns of a file without a header; default: the first row"""

    def __init__(self, options: Options, limits: Limits) -> None:
        self._options = options
        self._limits = limits

    def read(self, path: Path, start: int, end: int, account: Account) -> Iterator[Item]:
        """Yield all rows."""
        # The limit of the standard library holds for a process; the readers of a run share one value.
        csv.field_size_limit(self._limits.line_bytes)
        lines = _Lines(ByteLines(path, start, end, self._limits, account))
        rows = csv.reader(lines, delimiter=self._options.delimiter, strict=True)
        names = self._options.columns
        records = 0
        while True:
            lines.begin_row()
            try:
                row: list[str] | None = next(rows)
            except StopIteration:
                break
            except csv.Error:
                row = None
            records += 1
            if names is None and row is not None and not lines.problem:
                names = row
                yield Counted("ignored", "header", lines.length)
            else:
                yield self._item(row, names or [], lines)
        if lines.source.damage is not None:
            yield Counted("malformed", lines.source.damage, lines.source.cut)
        account.records = records + (lines.source.damage is not None)

    def _item(self, row: list[str] | None, names: list[str], lines: _Lines) -> Item:
        if lines.problem:
            return Counted("malformed", lines.problem, lines.length)
        if row is None:
            return Counted("malformed", "bad_csv", lines.length)
        if not row:
            return Counted("ignored", "blank_line", lines.length)
        if self._options.text_key not in names:
            return Counted("malformed", "schema", lines.length, lacks(self._options.text_key, names))
        if len(row) != len(names):
            return Counted("malformed", "fields", lines.length)
        fields = dict(zip(names, row, strict=True))
        return record_of(fields, self._options, "csv", lines.offset, lines.length + lines.count - 1, lines.length)


class _Lines:
    """Lines of a file as text, with the offset and the bytes of those that the present row takes."""

    def __init__(self, source: ByteLines) -> None:
        self.source = source
        self._lines = iter(source)
        self.begin_row()

    def begin_row(self) -> None:
        """Forget the lines of the row before."""
        self.offset, self.length, self.count, self.problem = 0, 0, 0, ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        offset, line = next(self._lines)
        if not self.count:
            self.offset = offset
        self.count += 1
        if isinstance(line, int):
            self.length += line
            self.problem = "line_bytes"
            return "\n"
        self.length += len(line)
        raw = line.removeprefix(b"\xef\xbb\xbf") if offset == 0 else line
        try:
            return raw.decode("utf-8") + "\n"
        except UnicodeDecodeError:
            self.problem = "bad_utf8"
            return raw.decode("utf-8", "replace") + "\n"
