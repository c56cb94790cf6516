"""JSON arrays, plain or compressed: an object of the array is a document."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.charset import recode_utf16
from clozeline.pipeline.ingest.formats.decompression import REASONS, Damage, decompress_file
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, Item, OneRange
from clozeline.pipeline.ingest.readers._fields import FIELD_REASONS, FieldOptions, integer_of, make_record

_BAD_BYTE: Final = re.compile("[\udc80-\udcff]")
_MARK: Final = "\ufeff"
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_LITERAL: Final = 16
"""Characters; no literal or escape is longer, and longer numbers are not ends of a buffer alone."""
_BETWEEN: Final = 256
"""Characters that may divide two objects."""
_STRUCTURE: Final = 1 << 20
"""Characters of an element that is no JSON in which its end is looked for by brackets."""
_OBJECT: Final = re.compile(r"\}\s*,\s*(?=\{)")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+(")?|[\[\]{},]', re.DOTALL)
_AHEAD: Final = 1 << 16


class JsonArray(OneRange):
    """Reads the array one element after another: memory holds one element, up to the limit of a line.

    The locator is the element's offset in the decompressed stream. An element that is not JSON is counted as
    `bad_json`, one that is too long to look for its end as `line_bytes`. Reading continues at the next object: it is
    found by the brackets or, where a quote or a bracket is missing, by `},{` and a field of the text's name. Packages
    that parse JSON in a stream do not tell the bytes of an element, which the account needs.

    Example:
        `[{"text": "It is raining."}, {"text": "And cold."}]`
    """

    VERSION: ClassVar[int] = 2
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
        yield from self._items(_Text(recode_utf16(decompress_file(path, self._limits, account), account)), account)

    def _items(self, text: _Text, account: Account) -> Iterator[Item]:
        account.separators += text.pass_over(_MARK) + text.blank()
        found = text.begins("[")
        account.separators += text.pass_over("[")
        reason = "" if found else "bad_json"
        swallowed = 0 if found else text.drain()
        while True:
            if found:
                reason = yield from self._elements(text, account)
                if reason == "end":
                    return
                swallowed, found = self._pass_over(text)
            account.records += 1
            yield Counted("malformed", text.damage if text.damage and not found else reason, swallowed)
            while not found:
                if not text.resume():
                    return
                swallowed, found = self._pass_over(text)
                if swallowed:
                    yield Counted("note", "resync", swallowed)
                if text.damage and not found:
                    account.records += 1
                    yield Counted("malformed", text.damage)

    def _elements(self, text: _Text, account: Account) -> Generator[Item, None, str]:
        """Yield elements up to the end of the file or to what is none, and return the reason, or `end`."""
        while True:
            account.separators += text.blank()
            if closed := text.pass_over("]"):
                account.separators += closed + text.blank()
                return "bad_json" if text.ensure(1) or text.damage else "end"
            offset, (value, length, reason) = text.offset, self._value(text)
            if reason:
                return reason
            text.take(text.at + length)
            account.records += 1
            yield self._item(value, offset, text)
            account.separators += text.blank() + (comma := text.pass_over(","))
            if not comma and not text.begins("]"):
                return "bad_json"

    def _value(self, text: _Text) -> tuple[Any, int, str]:
        """Return the value ahead, its characters, and the reason why there is none."""
        size = _AHEAD
        while True:
            whole = not text.ensure(size)
            try:
                value, end = self._decoder.raw_decode(text.buffer, text.at)
            except RecursionError:
                return None, 0, "bad_json"
            except json.JSONDecodeError as error:
                # A string or a literal may continue after what is ahead.
                inside = error.msg.startswith("Unterminated") or error.pos > len(text.buffer) - _LITERAL
                if whole or not inside:
                    return None, 0, "bad_json"
                if size > self._limits.line_bytes:
                    return None, 0, "line_bytes"
            else:
                if end < len(text.buffer) or whole:
                    return value, end - text.at, ""
            size *= 2

    def _pass_over(self, text: _Text) -> tuple[int, bool]:
        """Move past what is no element, to the next record or the end of the array; return the bytes, and whether."""
        swallowed = text.blank()
        if self._is_record(text):
            return swallowed, True
        if length := _element_length(text):
            return swallowed + text.take(text.at + length), True
        while True:
            match = _OBJECT.search(text.buffer, text.at)
            if match is not None:
                swallowed += text.take(match.end())
                if self._is_record(text):
                    return swallowed, True
                continue
            # What stays may hold the beginning of a match.
            swallowed += text.take(max(text.at, len(text.buffer) - _BETWEEN))
            if not text.fill():
                return swallowed + text.take(len(text.buffer)), False

    def _is_record(self, text: _Text) -> bool:
        """Return whether an object with a text is ahead, and after it the end of an element."""
        if not text.begins("{"):
            return False
        value, length, reason = self._value(text)
        return not reason and self._options.text_key in value and text.following(length) in tuple(",]")

    def _item(self, value: Any, offset: int, text: _Text) -> Item:
        length = text.offset - offset
        if length > self._limits.line_bytes:
            return Counted("malformed", "line_bytes", length)
        if _BAD_BYTE.search(text.taken):
            return Counted("malformed", "bad_utf8", length)
        if not isinstance(value, dict):
            return Counted("malformed", "not_object", length)
        return make_record(value, self._options, "json_array", offset, length)


def _element_length(text: _Text) -> int:
    """Return the characters up to the next object or the end of the array, by the brackets ahead; 0 where they fail."""
    size = _AHEAD
    while size <= _STRUCTURE:
        whole = not text.ensure(size)
        depth = 0
        for token in _TOKEN.finditer(text.buffer, text.at):
            mark = token[0]
            if mark[0] == '"':
                if token[1] is None:
                    break
            elif depth == 0 and mark in ",]}":
                before, behind = token.start() - text.at, token.end() - text.at
                after = text.following(behind)
                if mark == "," and after == "{":
                    return behind
                return before if mark == "]" and not after and not text.damage else 0
            elif mark != ",":
                depth += 1 if mark in "[{" else -1
        if whole:
            return 0
        size *= 2
    return 0


class _Text:
    """Text of a file, read as far as needed; `offset` is that of the next character in the bytes of the content."""

    def __init__(self, pieces: Iterator[bytes | Damage]) -> None:
        self.buffer = ""
        self.at = 0
        """position of the next character in the buffer"""
        self.taken = ""
        self.offset = 0
        self.damage = ""
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def fill(self) -> bool:
        """Read more; False at the end, and at damage, which `damage` then names."""
        piece = next(self._pieces, b"") if not self.damage else b""
        if isinstance(piece, Damage):
            self.damage, piece = piece.reason, b""
        self.buffer, self.at = self.buffer[self.at :] + self._decoder.decode(piece, final=not piece), 0
        return bool(piece)

    def resume(self) -> bool:
        """Continue after the damage; False where there is none."""
        resumed = bool(self.damage)
        self.damage = ""
        return resumed

    def following(self, length: int) -> str:
        """Return the next character after `length` characters ahead and blanks; empty at the end."""
        while True:
            match = _BLANK.match(self.buffer, self.at + length)
            if match is not None and match.end() < len(self.buffer):
                return self.buffer[match.end()]
            if not self.fill():
                return ""

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
