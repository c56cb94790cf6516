"""JSON arrays, plain or compressed: an object of the array is a document."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.formats.account import Account
from pipeline.formats.decompression import REASONS, Damage, decompress, detect_codec
from pipeline.formats.limits import Limits
from pipeline.readers import Counted, Item, OneRange
from pipeline.readers._fields import FIELD_REASONS, FieldOptions, integer_of, record_of

__all__ = ["JsonArray"]

_BAD_BYTE: Final = re.compile("[\udc80-\udcff]")
_MARK: Final = "\ufeff"


class JsonArray(OneRange):
    """Reads the array one element after another: memory holds one element, up to the limit of a line.

    The locator is the element's offset in the decompressed stream. Nothing says where an element that is not JSON
    ends, so the rest of the file is one record, counted as `bad_json`; as `line_bytes` where the element is too long to
    look for its end. Packages that parse JSON in a stream do not tell the bytes of an element, which the account needs.

    Example:
        `[{"text": "It is raining."}, {"text": "And cold."}]`
    """

    VERSION: ClassVar[int] = 1
    suffixes: ClassVar[tuple[str, ...]] = ()
    reasons: ClassVar[tuple[str, ...]] = (
        *REASONS, *FIELD_REASONS, "bad_utf8", "bad_json", "not_object", "line_bytes",
    )  # fmt: skip

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(FieldOptions):
        """Names of the fields."""

    def __init__(self, options: Options, limits: Limits) -> None:
        self._options = options
        self._limits = limits
        self._decoder = json.JSONDecoder(parse_int=integer_of)

    def read(self, path: Path, start: int, end: int, account: Account) -> Iterator[Item]:
        """Yield all elements."""
        with path.open("rb") as file:
            codec = detect_codec(file.read(16))
            file.seek(0)
            text = _Text(decompress(file, codec, self._limits, account))
            account.separators += text.pass_over(_MARK) + text.blank()
            opened = text.pass_over("[")
            account.separators += opened
            reason = "" if opened else "bad_json"
            while not reason:
                account.separators += text.blank()
                if closed := text.pass_over("]"):
                    account.separators += closed + text.blank()
                    reason = "bad_json" if text.ensure(1) else "end"
                    break
                offset, (value, reason) = text.offset, self._value(text)
                if reason:
                    break
                account.records += 1
                yield self._item(value, offset, text)
                account.separators += text.blank() + (comma := text.pass_over(","))
                if not comma and not text.begins("]"):
                    reason = "bad_json"
            rest = text.drain()
        reason = text.damage or reason
        if reason != "end":
            account.records += 1
            yield Counted("malformed", reason, rest)

    def _value(self, text: _Text) -> tuple[Any, str]:
        """Return the value ahead, and the reason why there is none; `text.taken` is its form in the file."""
        size = 1 << 16
        while True:
            whole = not text.ensure(size)
            try:
                value, end = self._decoder.raw_decode(text.buffer, text.at)
            except (ValueError, RecursionError):
                if whole:
                    return None, "bad_json"
                if size > self._limits.line_bytes:
                    return None, "line_bytes"
                size *= 2
                continue
            # A number may continue after what is ahead.
            if end == len(text.buffer) and not whole:
                size *= 2
                continue
            text.take(end)
            return value, ""

    def _item(self, value: Any, offset: int, text: _Text) -> Item:
        length = text.offset - offset
        if length > self._limits.line_bytes:
            return Counted("malformed", "line_bytes", length)
        if _BAD_BYTE.search(text.taken):
            return Counted("malformed", "bad_utf8", length)
        if not isinstance(value, dict):
            return Counted("malformed", "not_object", length)
        return record_of(value, self._options, "json_array", offset, length)


class _Text:
    """Text of a file, read as far as needed; `offset` is that of the next character in the bytes of the content."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.buffer = ""
        self.at = 0
        """place of the next character in the buffer"""
        self.taken = ""
        self.offset = 0
        self.damage: str | None = None
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def fill(self) -> bool:
        """Read more; False at the end, and at damage, which `damage` then names."""
        try:
            piece = next(self._pieces, b"")
        except Damage as damage:
            self.damage, piece = damage.reason, b""
        self.buffer, self.at = self.buffer[self.at :] + self._decoder.decode(piece, final=not piece), 0
        return bool(piece)

    def ensure(self, count: int) -> bool:
        """Return whether at least `count` characters are ahead, after reading as far as needed."""
        while len(self.buffer) - self.at < count:
            if not self.fill():
                return len(self.buffer) >= count
        return True

    def take(self, end: int) -> int:
        """Move to a place in the buffer; `taken` then holds what was passed. Return its bytes."""
        self.taken, self.at = self.buffer[self.at : end], end
        size = len(self.taken.encode("utf-8", "surrogateescape"))
        self.offset += size
        return size

    def begins(self, char: str) -> bool:
        """Return whether the next character is this one."""
        return self.ensure(1) and self.buffer[self.at] == char

    def pass_over(self, char: str) -> int:
        """Move past the next character if it is this one; return its bytes."""
        return self.take(self.at + 1) if self.begins(char) else 0

    def blank(self) -> int:
        """Move past blanks and line ends; return their bytes."""
        size = 0
        while self.ensure(1):
            while self.at < len(self.buffer) and self.buffer[self.at] in " \t\r\n":
                size += self.take(self.at + 1)
            if self.at < len(self.buffer):
                break
        return size

    def drain(self) -> int:
        """Read to the end, and return the bytes passed."""
        size = self.take(len(self.buffer))
        while self.fill():
            size += self.take(len(self.buffer))
        return size + self.take(len(self.buffer))
