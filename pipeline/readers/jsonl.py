"""JSON lines, plain or compressed: one object a line, one document an object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic.dataclasses import dataclass

from pipeline.byte_lines import ByteLines
from pipeline.config import STRICT
from pipeline.readers import Counted, Item
from pipeline.recipe import Limits
from pipeline.record_fields import FIELD_REASONS, FieldOptions, record_of
from pipeline.streams import REASONS, detect_codec

__all__ = ["Jsonl"]

_BOM: Final = b"\xef\xbb\xbf"


class Jsonl:
    r"""Reads lines as bytes, split at `\n` alone, so that one bad byte costs one line.

    The locator is the offset of the line in the decompressed stream. A truncated or damaged stream gives every whole
    line before the damage.
    """

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = (
        *REASONS, *FIELD_REASONS, "bad_json", "bad_utf8", "line_bytes", "not_object",
    )  # fmt: skip

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(FieldOptions):
        """Names of the fields."""

    def __init__(self, options: Options, limits: Limits) -> None:
        self._options = options
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
        raw = line.removeprefix(_BOM) if offset == 0 else line
        if not raw.strip():
            return Counted("ignored", "blank_line", len(line))
        try:
            value = json.loads(raw.decode("utf-8"), parse_int=_integer)
        except UnicodeDecodeError:
            return Counted("malformed", "bad_utf8", len(line))
        except (ValueError, RecursionError):
            return Counted("malformed", "bad_json", len(line))
        if not isinstance(value, dict):
            return Counted("malformed", "not_object", len(line))
        return record_of(value, self._options, "jsonl", offset, len(line))


def _integer(digits: str) -> Any:
    """Python refuses integers of thousands of digits, and no column holds them: they stay text."""
    return int(digits) if len(digits) < 20 else digits
