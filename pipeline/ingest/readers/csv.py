"""Read comma-separated files, plain or compressed: a row is a document."""

import csv
from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, ClassVar, Final, NamedTuple

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines, Cut, Line
from clozeline.pipeline.ingest.formats.decompression import REASONS, InputFile
from clozeline.pipeline.ingest.readers import Counted, Item, Reader
from clozeline.pipeline.ingest.readers._rows import EncodingOptions, FieldOptions, explain_unusable, make_record

_MOST_LINES: Final = 1 << 20  # of a row, which is kept in memory


class RowLine(NamedTuple):
    """A line of a row: its offset, its bytes, and what is wrong with it."""

    offset: int
    length: int
    problem: str


class Csv(Reader):
    r"""Reads rows by RFC 4180: a field in double quotes may contain delimiters, line ends and doubled quotes.

    The first row names the columns, unless `columns` does. The locator is the offset of the row in the decompressed
    stream. A row with more or fewer fields is counted as `fields`. Lines up to the one where a quote is found wrong are
    counted as one row, `bad_csv`, and the next line begins a row; reading ends at damage, and at a row of more than a
    million lines. Whether a line starts a row depends on all quotes before it, so a file is one range.

    Example:
        `id,text` and `1,"It is ""raining"",\n and cold."` give the text `It is "raining",\n and cold.`
    """

    VERSION: ClassVar[int] = 3
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
        lines: list[RowLine] = []  # of the present row

        def take_lines() -> Iterator[str]:
            for offset, line in ByteLines(path, start, end, self._limits, resume=False):
                if len(lines) == _MOST_LINES:
                    raise csv.Error("more lines than a row may have")
                text, problem = self._decode(line, is_first=offset == 0)
                lines.append(RowLine(offset, line if isinstance(line, int) else len(line), problem))
                yield text + "\n"

        rows = csv.reader(take_lines(), delimiter=self._options.delimiter, strict=True)
        names = self._options.columns
        while True:
            lines.clear()
            row: list[str] = []
            problem = ""
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error:
                problem = "bad_csv"
            problem = next((line.problem for line in lines if line.problem), problem)
            if names is None and row and not problem:
                names = row
                yield Counted("ignored", "header")
                continue
            if names is None and problem:
                names = []  # the header is lost; no other row may replace it
            yield self._make_item(row, names or [], lines, problem)

    def _decode(self, line: Line, *, is_first: bool) -> tuple[str, str]:
        """Return the text of a line, and what is wrong with it."""
        if isinstance(line, int):
            return "", "line_bytes"
        if isinstance(line, Cut):
            return "", line.reason
        raw = line.removeprefix(b"\xef\xbb\xbf") if is_first else line
        try:
            return self._options.decode(raw), ""
        except UnicodeDecodeError:
            return raw.decode("utf-8", "replace"), "bad_utf8"

    def _make_item(self, row: list[str], names: list[str], lines: list[RowLine], problem: str) -> Item:
        offset = lines[0].offset
        if problem:
            return Counted("malformed", problem, offset)
        if not row:
            return Counted("ignored", "blank_line")
        if why := explain_unusable(self._options.text_key, names):
            return Counted("malformed", "schema", offset, why)
        if len(row) != len(names):
            return Counted("malformed", "fields", offset)
        length = sum(line.length + 1 for line in lines) - 1
        return make_record(dict(zip(names, row, strict=True)), self._options, "csv", offset, length)
