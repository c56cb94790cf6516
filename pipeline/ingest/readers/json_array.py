"""Read JSON arrays, plain or compressed: an object of the array is a document."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Generator, Iterator
from typing import Any, ClassVar, Final

from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.charset import recode_utf16
from clozeline.pipeline.ingest.formats.decompression import REASONS, Damage, decompress_file
from clozeline.pipeline.ingest.formats.input_file import InputFile
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, Item, OneRange
from clozeline.pipeline.ingest.readers._fields import FIELD_REASONS, FieldOptions, make_record, parse_integer

_BAD_BYTE: Final = re.compile("[\udc80-\udcff]")
_MARK: Final = "\ufeff"
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_LITERAL: Final = 16  # characters; no literal or escape is longer
_BETWEEN: Final = 256  # maximum characters between two objects
_STRUCTURE: Final = 1 << 20  # characters of an invalid element in which its end is searched by brackets
_OBJECT: Final = re.compile(r"\}\s*,\s*(?=\{)")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+(")?|[\[\]{},]', re.DOTALL)
_AHEAD: Final = 1 << 16


class JsonArray(OneRange):
    """Reads the array element by element; memory holds one element, up to the limit of a line.

    The locator is the offset of the element in the decompressed stream. An element that is not JSON is counted as
    `bad_json`, one that is too long to find its end as `line_bytes`. Reading continues at the next object, found by
    the brackets or, if a quote or bracket is missing, by `},{` and a text field. Streaming JSON packages do not report
    the bytes of an element, which the account needs.

    Example:
        `[{"text": "It is raining."}, {"text": "And cold."}]`
    """

    VERSION: ClassVar[int] = 2
    suffixes: ClassVar[tuple[str, ...]] = ()
    reasons: ClassVar[tuple[str, ...]] = (
        *REASONS, *FIELD_REASONS, "bad_utf8", "bad_json", "not_object", "line_bytes",
    )  # fmt: skip

    Options = FieldOptions

    def __init__(self, options: FieldOptions, limits: Limits) -> None:
        self._options, self._limits = options, limits
        self._decoder = json.JSONDecoder(parse_int=parse_integer)

    def read(self, path: InputFile, start: int, end: int, account: Account) -> Iterator[Item]:
        text = _Text(recode_utf16(decompress_file(path, self._limits, account), account))
        account.separators += text.pass_over(_MARK) + text.skip_blanks()
        is_array = text.begins("[")
        account.separators += text.pass_over("[")
        reason, start = "" if is_array else "bad_json", text.offset
        skipped = 0 if is_array else text.drain()
        while True:
            if is_array:
                reason = yield from self._read_elements(text, account)
                if reason == "end":
                    return
                start = text.offset
                skipped, is_array = self._skip_to_record(text)
            account.records += 1
            reason = text.damage if text.damage and not is_array else reason
            yield Counted("malformed", reason, skipped, start)
            while not is_array:
                if not text.resume():
                    return
                skipped, is_array = self._skip_to_record(text)
                if skipped:
                    yield Counted("note", "resync", skipped)
                if text.damage and not is_array:
                    account.records += 1
                    yield Counted("malformed", text.damage, locator=text.offset)

    def _read_elements(self, text: _Text, account: Account) -> Generator[Item, None, str]:
        """Yield elements up to the first invalid one, and return the reason, or `end` at the end of the file."""
        while True:
            account.separators += text.skip_blanks()
            if closed := text.pass_over("]"):
                account.separators += closed + text.skip_blanks()
                return "bad_json" if text.ensure(1) or text.damage else "end"
            offset, (value, length, reason) = text.offset, self._parse_value(text)
            if reason:
                return reason
            text.take(text.at + length)
            account.records += 1
            if (length := text.offset - offset) > self._limits.line_bytes:
                yield Counted("malformed", "line_bytes", length, offset)
            elif _BAD_BYTE.search(text.taken):
                yield Counted("malformed", "bad_utf8", length, offset)
            elif not isinstance(value, dict):
                yield Counted("malformed", "not_object", length, offset)
            else:
                yield make_record(value, self._options, "json_array", offset, length)
            account.separators += text.skip_blanks() + (comma := text.pass_over(","))
            if not comma and not text.begins("]"):
                return "bad_json"

    def _parse_value(self, text: _Text) -> tuple[Any, int, str]:
        """Return the next value, its length in characters, and the reason if it is invalid."""
        size = _AHEAD
        while True:
            at_end = not text.ensure(size)
            try:
                value, end = self._decoder.raw_decode(text.buffer, text.at)
            except RecursionError:
                return None, 0, "bad_json"
            except json.JSONDecodeError as error:
                # a string or literal may continue beyond the buffer
                inside = error.msg.startswith("Unterminated") or error.pos > len(text.buffer) - _LITERAL
                if at_end or not inside:
                    return None, 0, "bad_json"
                if size > self._limits.line_bytes:
                    return None, 0, "line_bytes"
            else:
                if end < len(text.buffer) or at_end:
                    return value, end - text.at, ""
            size *= 2

    def _skip_to_record(self, text: _Text) -> tuple[int, bool]:
        """Skip an invalid element up to the next record or the end of the array; return the bytes and success."""
        skipped = text.skip_blanks()
        if self._is_record(text):
            return skipped, True
        if length := _measure_element(text):
            return skipped + text.take(text.at + length), True
        while True:
            match = _OBJECT.search(text.buffer, text.at)
            if match is not None:
                skipped += text.take(match.end())
                if self._is_record(text):
                    return skipped, True
                continue
            # keep the last characters, which may start a match
            skipped += text.take(max(text.at, len(text.buffer) - _BETWEEN))
            if not text.fill():
                return skipped + text.take(len(text.buffer)), False

    def _is_record(self, text: _Text) -> bool:
        """Return whether an object with a text follows, and then the end of an element."""
        if not text.begins("{"):
            return False
        value, length, reason = self._parse_value(text)
        return not reason and self._options.text_key in value and text.peek_after(length) in tuple(",]")


def _measure_element(text: _Text) -> int:
    """Return the characters up to the next object or the end of the array, by matching brackets; 0 if that fails."""
    size = _AHEAD
    while size <= _STRUCTURE:
        at_end = not text.ensure(size)
        depth = 0
        for token in _TOKEN.finditer(text.buffer, text.at):
            mark = token[0]
            if mark[0] == '"':
                if token[1] is None:
                    break
            elif depth == 0 and mark in ",]}":
                before, behind = token.start() - text.at, token.end() - text.at
                after = text.peek_after(behind)
                if mark == "," and after == "{":
                    return behind
                return before if mark == "]" and not after and not text.damage else 0
            elif mark != ",":
                depth += 1 if mark in "[{" else -1
        if at_end:
            return 0
        size *= 2
    return 0


class _Text:
    """Text of a file, read on demand; `at` indexes `buffer`, `offset` the bytes of the content."""

    def __init__(self, pieces: Iterator[bytes | Damage]) -> None:
        self.buffer, self.at, self.taken, self.offset, self.damage = "", 0, "", 0, ""
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def fill(self) -> bool:
        """Read more; False at the end, or at damage, which `damage` then names."""
        piece = next(self._pieces, b"") if not self.damage else b""
        if isinstance(piece, Damage):
            self.damage, piece = piece.reason, b""
        self.buffer, self.at = self.buffer[self.at :] + self._decoder.decode(piece, final=not piece), 0
        return bool(piece)

    def resume(self) -> bool:
        """Continue after the damage; False if there is none."""
        damage, self.damage = self.damage, ""
        return bool(damage)

    def peek_after(self, length: int) -> str:
        """Return the first non-blank character after the next `length` characters; "" at the end."""
        while True:
            match = _BLANK.match(self.buffer, self.at + length)
            if match is not None and match.end() < len(self.buffer):
                return self.buffer[match.end()]
            if not self.fill():
                return ""

    def ensure(self, count: int) -> bool:
        """Read until at least `count` characters are ahead; return whether they are."""
        while len(self.buffer) - self.at < count:
            if not self.fill():
                return len(self.buffer) >= count
        return True

    def take(self, end: int) -> int:
        """Move to a buffer index, leave the passed text in `taken`, and return its bytes."""
        self.taken, self.at = self.buffer[self.at : end], end
        size = len(self.taken.encode("utf-8", "surrogateescape"))
        self.offset += size
        return size

    def begins(self, char: str) -> bool:
        return self.ensure(1) and self.buffer[self.at] == char

    def pass_over(self, char: str) -> int:
        """Skip the next character if it is `char`; return its bytes."""
        return self.take(self.at + 1) if self.begins(char) else 0

    def skip_blanks(self) -> int:
        """Skip blanks and line ends; return their bytes."""
        size = 0
        while self.ensure(1):
            while self.at < len(self.buffer) and self.buffer[self.at] in " \t\r\n":
                size += self.take(self.at + 1)
            if self.at < len(self.buffer):
                break
        return size

    def drain(self) -> int:
        """Read to the end and return the bytes."""
        size = self.take(len(self.buffer))
        while self.fill():
            size += self.take(len(self.buffer))
        return size + self.take(len(self.buffer))
