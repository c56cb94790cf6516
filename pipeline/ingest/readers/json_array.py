"""Read JSON arrays, compressed or not: each object of the array is a document."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from clozeline.pipeline.ingest.formats.charset import recode_utf16
from clozeline.pipeline.ingest.formats.decompression import (
    DAMAGE_REASONS,
    Damage,
    InputFile,
    decompress_file,
)
from clozeline.pipeline.ingest.formats.portable_json import JSON_DECODER
from clozeline.pipeline.ingest.readers import NO_RECORDS, Item, SkippedRecord
from clozeline.pipeline.ingest.readers._rows import (
    FIELD_REASONS,
    FieldOptions,
    RowReader,
)

_BAD_BYTE: Final = re.compile("[\udc80-\udcff]")
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_LONGEST_LITERAL: Final = 16  # characters; no literal or escape is longer
_LOOKAHEAD: Final = 1 << 16


class JsonArrayReader(RowReader):
    """Reads the array element by element; memory holds one element, up to the limit of a line.

    The locator is the offset of the element in the decompressed stream. An element that is not an
    object is counted as `bad_json`. Reading ends at damage, at invalid JSON (`bad_json`), and at an
    element longer than a line may be (`line_bytes`).

    Example:
        `[{"text": "It is raining."}, {"text": "And cold."}]`
    """

    VERSION = 6
    reasons = (*DAMAGE_REASONS, *FIELD_REASONS, "bad_json", "line_bytes")

    Options = FieldOptions

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        longest = self._limits.line_bytes
        text = _JsonText(recode_utf16(decompress_file(path, self._limits, resume=False)), longest)
        text.skip("\ufeff")
        is_array = text.skip("[")
        if is_array and text.starts_with("]"):
            yield NO_RECORDS

        while is_array and not text.skip("]"):
            offset = text.offset
            value, raw, reason = text.take_value()
            length = text.offset - offset
            if reason or length > longest:
                yield SkippedRecord(
                    "malformed", reason or "line_bytes", offset, lost_bytes=text.lost_bytes
                )
                return
            yield self._make_item(value, raw, offset, length)
            is_array = text.skip(",") or text.starts_with("]")

        if not is_array or text.starts_with("") or text.damage:
            yield SkippedRecord(
                "malformed", text.damage or "bad_json", text.offset, lost_bytes=text.lost_bytes
            )

    def _make_item(self, value: Any, raw: str, offset: int, length: int) -> Item:
        if _BAD_BYTE.search(raw):
            return SkippedRecord("malformed", "bad_utf8", offset)
        if not isinstance(value, dict):
            return self._records.reject("bad_json", offset, "valid JSON, but not an object", [raw])
        return self._records.make(value, "json_array", offset, length)


class _JsonText:
    """The text of a file, read on demand up to `damage`.

    `at` is an index of `buffer`, `offset` the number of bytes before it.
    """

    def __init__(self, pieces: Iterator[bytes | Damage], longest: int) -> None:
        self.buffer = ""
        self.at = 0
        self.offset = 0
        self.damage = ""
        self.lost_bytes = 0
        self._pieces = pieces
        self._longest = longest
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def _fill(self) -> bool:
        """Read more text; return False at the end or at damage."""
        piece = next(self._pieces, b"")
        if isinstance(piece, Damage):
            self.damage = piece.reason
            self.lost_bytes = piece.lost_bytes
            piece = b""
        self.buffer = self.buffer[self.at :] + self._decoder.decode(piece, final=not piece)
        self.at = 0
        return bool(piece)

    def _take(self, end: int) -> str:
        """Move to an index of the buffer and return the text in between."""
        taken = self.buffer[self.at : end]
        self.at = end
        self.offset += len(taken.encode("utf-8", "surrogateescape"))
        return taken

    def starts_with(self, mark: str) -> bool:
        """Return whether the text that follows starts with a mark."""
        return (self.at < len(self.buffer) or self._fill()) and self.buffer.startswith(
            mark, self.at
        )

    def skip(self, mark: str) -> bool:
        """Skip blanks, a mark, and the blanks behind it; return whether the mark was there."""
        self._skip_blanks()
        if not self.starts_with(mark):
            return False
        self._take(self.at + len(mark))
        self._skip_blanks()
        return True

    def _skip_blanks(self) -> None:
        while True:
            self._take(_BLANK.match(self.buffer, self.at).end())  # type: ignore[union-attr]
            if self.at < len(self.buffer) or not self._fill():
                return

    def take_value(self) -> tuple[object, str, str]:
        """Return the value that starts here, its text, and "".

        Return the reason as third element if the value is invalid; it is then not passed.
        """
        size = _LOOKAHEAD

        while True:
            at_end = False
            while len(self.buffer) - self.at < size and not at_end:
                at_end = not self._fill()
            try:
                value, end = JSON_DECODER.raw_decode(self.buffer, self.at)
            except RecursionError:
                return None, "", "bad_json"
            except json.JSONDecodeError as error:
                # a string or literal may continue beyond the buffer
                inside = (
                    error.msg.startswith("Unterminated")
                    or error.pos > len(self.buffer) - _LONGEST_LITERAL
                )
                if at_end or not inside:
                    return None, "", self.damage or "bad_json"
                if size > self._longest:
                    return None, "", "line_bytes"
            else:
                if end < len(self.buffer) or at_end:
                    return value, self._take(end), ""

            size *= 2
