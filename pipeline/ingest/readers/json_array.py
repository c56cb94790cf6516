"""Read JSON arrays, plain or compressed: an object of the array is a document."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from clozeline.pipeline.ingest.formats.charset import recode_utf16
from clozeline.pipeline.ingest.formats.decompression import REASONS, Damage, InputFile, decompress_file
from clozeline.pipeline.ingest.readers import Counted, Item, Reader
from clozeline.pipeline.ingest.readers._rows import FIELD_REASONS, FieldOptions, make_record, parse_integer

_BAD_BYTE: Final = re.compile("[\udc80-\udcff]")
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_OBJECT: Final = re.compile(r",\s*(?=\{)")
_LITERAL: Final = 16  # characters; no literal or escape is longer
_BETWEEN: Final = 256  # maximum characters between two objects
_AHEAD: Final = 1 << 16
_DECODER: Final = json.JSONDecoder(parse_int=parse_integer)


class JsonArray(Reader):
    """Reads the array element by element; memory holds one element, up to the limit of a line.

    The locator is the offset of the element in the decompressed stream. An element that is no JSON object is counted as
    `bad_json`, one that is too long to find its end as `line_bytes`. Reading continues at the next object with a text.

    Example:
        `[{"text": "It is raining."}, {"text": "And cold."}]`
    """

    VERSION: ClassVar[int] = 3
    reasons: ClassVar[tuple[str, ...]] = (*REASONS, *FIELD_REASONS, "bad_json", "line_bytes")

    Options = FieldOptions

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        text = _Text(recode_utf16(decompress_file(path, self._limits)), self._limits.line_bytes)
        text.skip("\ufeff")
        is_element = text.skip("[")
        while True:
            if is_element and text.skip("]"):
                if not text.begins("") and not text.damage:
                    return
                is_element = False
            text.skip("")
            offset, reason = text.offset, "bad_json"
            if is_element:
                value, raw, reason = text.take_value()
                if not reason:
                    yield self._make_item(value, raw, offset, text.offset - offset)
                    if text.skip(",") or text.begins("]"):
                        continue
                    offset, reason = text.offset, "bad_json"
            is_element = self._seek_record(text)
            yield Counted("malformed", reason if is_element or not text.damage else text.damage, offset)
            while not is_element:
                if not text.damage:
                    return
                text.damage = ""  # what follows it may be anything
                is_element = self._seek_record(text)
                if not is_element and text.damage:
                    yield Counted("malformed", text.damage, text.offset)

    def _make_item(self, value: Any, raw: str, offset: int, length: int) -> Item:
        if _BAD_BYTE.search(raw):
            return Counted("malformed", "bad_utf8", offset)
        if length > self._limits.line_bytes:
            return Counted("malformed", "line_bytes", offset)
        if not isinstance(value, dict):
            return Counted("malformed", "bad_json", offset)
        return make_record(value, self._options, "json_array", offset, length)

    def _seek_record(self, text: _Text) -> bool:
        """Go to the next object with a text; False at the end, or at damage."""
        while True:
            text.skip("")
            if text.begins("{"):
                value, _, reason = text.parse_value()
                if not reason and self._options.text_key in value:
                    return True
            if not text.seek(_OBJECT):
                return False


class _Text:
    """Text of a file, read on demand; `at` is an index of `buffer`, `offset` counts the bytes before it."""

    def __init__(self, pieces: Iterator[bytes | Damage], longest: int) -> None:
        self.buffer, self.at, self.offset, self.damage = "", 0, 0, ""
        self._pieces, self._longest = pieces, longest
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def _fill(self) -> bool:
        """Read more; False at the end, or at damage, which `damage` then names."""
        piece = next(self._pieces, b"") if not self.damage else b""
        if isinstance(piece, Damage):
            self.damage, piece = piece.reason, b""
        self.buffer, self.at = self.buffer[self.at :] + self._decoder.decode(piece, final=not piece), 0
        return bool(piece)

    def _take(self, end: int) -> str:
        """Move to an index of the buffer and return what was passed."""
        taken, self.at = self.buffer[self.at : end], end
        self.offset += len(taken.encode("utf-8", "surrogateescape"))
        return taken

    def begins(self, mark: str) -> bool:
        """Return whether text follows that begins so."""
        return (self.at < len(self.buffer) or self._fill()) and self.buffer.startswith(mark, self.at)

    def skip(self, mark: str) -> bool:
        """Skip blanks and then a mark, with the blanks after it; return whether it was there."""
        while True:
            self._take(_BLANK.match(self.buffer, self.at).end())  # type: ignore[union-attr]
            if self.at < len(self.buffer) or not self._fill():
                break
        if not mark or not self.begins(mark):
            return False
        self._take(self.at + len(mark))
        self.skip("")
        return True

    def seek(self, pattern: re.Pattern[str]) -> bool:
        """Go to the end of the next match; False at the end, or at damage."""
        while (match := pattern.search(self.buffer, self.at)) is None:
            # the last characters may begin a match
            self._take(max(self.at, len(self.buffer) - _BETWEEN))
            if not self._fill():
                self._take(len(self.buffer))
                return False
        self._take(match.end())
        return True

    def take_value(self) -> tuple[Any, str, str]:
        """Pass the value that starts here; return it, its text, and the reason if it is invalid and not passed."""
        value, size, reason = self.parse_value()
        return value, "" if reason else self._take(self.at + size), reason

    def parse_value(self) -> tuple[Any, int, str]:
        """Return the value that starts here, its length in characters, and the reason if it is invalid."""
        size = _AHEAD
        while True:
            at_end = False
            while len(self.buffer) - self.at < size and not at_end:
                at_end = not self._fill()
            try:
                value, end = _DECODER.raw_decode(self.buffer, self.at)
            except RecursionError:
                return None, 0, "bad_json"
            except json.JSONDecodeError as error:
                # a string or literal may continue beyond the buffer
                inside = error.msg.startswith("Unterminated") or error.pos > len(self.buffer) - _LITERAL
                if at_end or not inside:
                    return None, 0, "bad_json"
                if size > self._longest:
                    return None, 0, "line_bytes"
            else:
                if end < len(self.buffer) or at_end:
                    return value, end - self.at, ""
            size *= 2
