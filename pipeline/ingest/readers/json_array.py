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
    start = rb"(\xef\xbb\xbf)?\s*\["
    start_suffix = ".json"
    reasons = (*DAMAGE_REASONS, *FIELD_REASONS, "bad_json", "line_bytes")

    Options = FieldOptions

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        pieces = recode_utf16(decompress_file(path, self._limits, resume=False))
        text = _JsonText(pieces, self._limits.line_bytes)
        try:
            text.skip("\ufeff")
            is_array = text.skip("[")
            if is_array and text.starts_with("]"):
                yield NO_RECORDS

            while is_array and not text.skip("]"):
                offset = text.offset
                value, raw = text.take_value()
                yield self._make_item(value, raw, offset, text.offset - offset)
                is_array = text.skip(",") or text.starts_with("]")

            if not is_array or text.starts_with(""):
                raise Damage("bad_json")
        except Damage as damage:
            text.damage = text.damage or damage
        if text.damage:
            yield SkippedRecord.from_damage(text.damage, text.offset)

    def _make_item(self, value: Any, raw: str, offset: int, length: int) -> Item:
        if _BAD_BYTE.search(raw):
            return SkippedRecord("malformed", "bad_utf8", offset, "it is not UTF-8")
        if not isinstance(value, dict):
            return self._records.reject(
                "bad_json", offset, "it is valid JSON, but not an object", [raw]
            )
        return self._records.make(value, "json_array", offset, length)


class _JsonText:
    """The text of a file, read on demand up to its damage.

    `at` is an index of `buffer`, `offset` the number of bytes before it.
    """

    def __init__(self, pieces: Iterator[bytes | Damage], longest: int) -> None:
        self.buffer = ""
        self.at = 0
        self.offset = 0
        self.damage: Damage | None = None
        self._pieces = pieces
        self._longest = longest
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def _fill(self) -> bool:
        """Read more text; return False at the end or at damage."""
        piece = next(self._pieces, b"")
        if isinstance(piece, Damage):
            self.damage = piece
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
        """Return whether the text behind the blanks that were skipped starts with a mark."""
        return self.at < len(self.buffer) and self.buffer.startswith(mark, self.at)

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

    def take_value(self) -> tuple[object, str]:
        """Return the value that starts here, and its text.

        Raises:
            Damage: the value is invalid or too long; it is then not passed.
        """
        size = _LOOKAHEAD

        while True:
            at_end = False
            while len(self.buffer) - self.at < size and not at_end:
                at_end = not self._fill()
            try:
                value, end = JSON_DECODER.raw_decode(self.buffer, self.at)
            except RecursionError:
                raise Damage("bad_json") from None
            except json.JSONDecodeError as error:
                # a string or literal may continue beyond the buffer
                inside = (
                    error.msg.startswith("Unterminated")
                    or error.pos > len(self.buffer) - _LONGEST_LITERAL
                )
                if at_end or not inside:
                    raise Damage("bad_json") from None
                if size > self._longest:
                    raise Damage("line_bytes") from None
            else:
                if end < len(self.buffer) or at_end:
                    raw = self.buffer[self.at : end]
                    if len(raw.encode("utf-8", "surrogateescape")) > self._longest:
                        raise Damage("line_bytes")
                    return value, self._take(end)

            size *= 2
