"""Tab-separated lines, plain or compressed: one text, or one pair of aligned texts, a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.byte_lines import ByteLines
from pipeline.config import STRICT
from pipeline.readers import Counted, Item, Record
from pipeline.recipe import Limits
from pipeline.record_fields import FIELD_REASONS, FieldOptions, record_of
from pipeline.streams import REASONS, detect_codec

__all__ = ["Tsv"]

_BOM: Final = b"\xef\xbb\xbf"
_TEXT, _TARGET = "text", "target_text"


class Tsv:
    r"""Every tab separates two fields and every `\n` two lines: there is no quoting, and no header line.

    The columns `text`, `target_text` and `url` are what they say, others go to `extra`. A line with more or fewer
    fields is counted as `fields`. The locator is the offset of the line in the decompressed stream.

    Example (columns text, target_text):
        `It is raining.<tab>Es regnet.`
    """

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = (*REASONS, *FIELD_REASONS, "bad_utf8", "fields", "line_bytes")

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """Names of the columns."""

        columns: Annotated[list[str], Field(min_length=1)] = field(default_factory=lambda: [_TEXT, _TARGET])
        """names of the columns in their order, `text` among them"""

        def __post_init__(self) -> None:
            """Each name once, and a text."""
            if len(set(self.columns)) < len(self.columns) or _TEXT not in self.columns:
                raise ValueError(f"columns {self.columns}: expected names that differ, `text` among them")

    def __init__(self, options: Options, limits: Limits) -> None:
        self._columns = options.columns
        self._limits = limits

    @staticmethod
    def splittable(head: bytes) -> bool:
        """Uncompressed lines can be found from the middle of a file."""
        return detect_codec(head) is None

    def read(self, path: Path, start: int, end: int) -> Iterator[Item]:
        """Lines whose first byte lies in [start, end); of a compressed file all lines."""
        lines = ByteLines(path, start, end, self._limits)
        for offset, line in lines:
            yield self._item(line, offset)
        if lines.damage is not None:
            yield Counted("malformed", lines.damage, lines.cut)

    def _item(self, line: bytes | int, offset: int) -> Item:
        if isinstance(line, int):
            return Counted("malformed", "line_bytes", line)
        raw = (line.removeprefix(_BOM) if offset == 0 else line).removesuffix(b"\r")
        if not raw.strip():
            return Counted("ignored", "blank_line", len(line))
        try:
            fields = raw.decode("utf-8").split("\t")
        except UnicodeDecodeError:
            return Counted("malformed", "bad_utf8", len(line))
        if len(fields) != len(self._columns):
            return Counted("malformed", "fields", len(line))
        row = dict(zip(self._columns, fields, strict=True))
        target = row.pop(_TARGET, None)
        if target is not None and not row[_TEXT].strip():
            return Record(offset, "tsv", len(line), "", target_text=target)
        item = record_of(row, FieldOptions(), "tsv", offset, len(line))
        return replace(item, target_text=target) if isinstance(item, Record) else item
