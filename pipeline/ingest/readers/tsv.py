"""Read tab-separated lines, compressed or not: tables, texts, or pairs of aligned texts."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import field, replace
from typing import Annotated, Any, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, plural
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines, first_lines
from clozeline.pipeline.ingest.formats.decompression import InputFile
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import Item, SkippedRecord
from clozeline.pipeline.ingest.readers._rows import (
    TARGET_FIELD,
    EncodingOptions,
    FieldOptions,
    LineFileReader,
    RowReader,
    explain_missing_key,
)

_ESCAPE: Final = re.compile(r"\\([bfnrtvN\\])")
_LETTERS: Final = {"N": "", **dict(zip("bfnrtv\\", "\b\f\n\r\t\v\\", strict=True))}


class TsvReader(RowReader, LineFileReader):
    r"""Splits fields at every tab and lines at every `\n`; quotes have no meaning.

    A first line that names the text key, each field once, is the header of a table. Without a
    header and without `columns`, a line is a pair: `text` and `target_text`. Other columns go to
    `extra`. A line with more or fewer fields is counted as `fields`.

    Example (a pair):
        `It is raining.<tab>Es regnet.`
    """

    VERSION = 5
    has_header = True
    suffixes = (".tsv",)
    reasons = (*LineFileReader.line_reasons, "fields")

    @config_class
    class Options(FieldOptions, EncodingOptions):
        columns: Annotated[list[str], Field(min_length=1)] | None = field(default=None)
        """column names, in order, of a file without a header; the name of the text is one of them.
        Default: the header, else `text` and `target_text`."""
        escapes: bool | None = None
        r"""whether `\n`, `\t`, `\\` and `\N` mean a line end, a tab, a backslash and no value, as
        COPY of PostgreSQL writes them; default: no, but a file that looks like it is refused"""

        def __post_init__(self) -> None:
            super().__post_init__()
            names = self.columns
            if names is not None and (len(set(names)) < len(names) or self.text_key not in names):
                raise ValueError(
                    f"columns {names}: expected names that differ, `{self.text_key}` among them"
                )

    def __init__(self, options: Any, limits: InputLimits) -> None:
        super().__init__(options, limits)
        self._header: list[str] | None = None

    def column_names(self, path: InputFile) -> Sequence[str]:
        """Return the columns that the options or the first line name.

        Raises:
            ConfigurationError: the first line cannot be read.
        """
        names = self._options.columns or self._read_header(path)
        if names is None:
            raise ConfigurationError(
                f"{path}: the first line cannot be read: it must have the names of the columns"
            )
        return names

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        if self._options.escapes is None:
            self._refuse_escapes(path)
        self._header = self._read_header(path) if self._options.columns is None else None
        return super().read(path, start, end)

    def _refuse_escapes(self, path: InputFile) -> None:
        """Raise ConfigurationError if every backslash of the first rows starts an escape."""
        rows = [row for row in first_lines(path, self._limits) if b"\\" in row]
        if rows and "\\" not in _ESCAPE.sub("", b"\n".join(rows).decode("latin-1")):
            raise ConfigurationError(
                rf"{path}: {plural(len(rows), 'row')} with \n, \t, \\ or \N, as COPY of PostgreSQL "
                f"writes line ends, tabs, backslashes and missing values: if it did, write "
                f"`{{path: {path}, escapes: true}}` in the input, else `escapes: false`"
            )

    def _read_header(self, path: InputFile) -> list[str] | None:
        """Return the columns that the first line names; None if the line is data."""
        with closing(iter(ByteLines(path, 0, path.stat().st_size, self._limits))) as lines:
            _, line = next(lines, (0, b""))
        if not isinstance(line, bytes):
            return None
        try:
            text = self.decode(line.removeprefix(b"\xef\xbb\xbf"), path)
        except UnicodeDecodeError:
            return None

        names = text.removesuffix("\r").split("\t")
        return names if self._records.is_header(names) else None

    def parse(self, line: str, offset: int, length: int) -> Item:
        if offset == 0 and self._header is not None:
            return SkippedRecord("ignored", "header")
        text_key = self._options.text_key
        columns = self._options.columns or self._header or [text_key, TARGET_FIELD]
        fields = line.removesuffix("\r").split("\t")

        if len(fields) != len(columns):
            why = f"it has {len(fields)} fields instead of {len(columns)}"
            rejected = self._records.reject("fields", offset, why, fields)
            if offset or self._options.columns is not None:
                return rejected
            names = ", ".join([text_key, TARGET_FIELD, "score", "..."][: len(fields)])
            return replace(
                rejected,
                detail=f"{explain_missing_key(text_key, fields)}; without a header, name all "
                f"{len(fields)} columns: `columns: [{names}]`",
            )

        if self._options.escapes:
            fields = [_ESCAPE.sub(lambda each: _LETTERS[each[1]], field) for field in fields]
        return self._records.make_pair(
            dict(zip(columns, fields, strict=True)), "tsv", offset, length
        )
