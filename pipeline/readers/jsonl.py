"""JSON lines, plain or compressed: one object a line, one document an object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.readers import Counted, Item
from pipeline.recipe import Limits
from pipeline.record_fields import FIELD_REASONS, FieldOptions, record_of
from pipeline.streams import REASONS, Damage, decompress, detect_codec

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
        with path.open("rb") as file:
            codec = detect_codec(file.read(16))
            first = start if codec is None else 0
            # A range begins inside a line unless the byte before it ends one.
            file.seek(max(0, first - 1))
            pieces = decompress(file, codec, self._limits)
            lines = _Lines(pieces, max(0, first - 1), self._limits.line_bytes)
            for offset, line in lines:
                if codec is None and offset >= end:
                    return
                if first == 0 or offset >= first:
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


class _Lines:
    r"""(offset, line without `\n`) of a stream; for a line over the limit its length stands in its place.

    After the last line, `damage` says why the stream ended early, if so, and `cut` the bytes of the line it cut.
    """

    def __init__(self, pieces: Iterator[bytes], start: int, limit: int) -> None:
        self.damage: str | None = None
        self.cut = 0
        self._pieces = pieces
        self._at = start
        self._limit = limit

    def __iter__(self) -> Iterator[tuple[int, bytes | int]]:
        held: list[bytes] = []  # the beginning of a line that goes on in the next piece
        length = 0
        for piece in self._safe():
            *whole, rest = piece.split(b"\n")
            for line in whole:
                held.append(line)
                length += len(line)
                yield self._at, b"".join(held) if length <= self._limit else length
                self._at += length + 1
                held, length = [], 0
            length += len(rest)
            held = [*held, rest] if length <= self._limit else []
        if self.damage is not None:
            self.cut = length
        elif length:
            yield self._at, b"".join(held) if length <= self._limit else length

    def _safe(self) -> Iterator[bytes]:
        try:
            yield from self._pieces
        except Damage as damage:
            self.damage = damage.reason
