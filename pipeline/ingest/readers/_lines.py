"""The base of line readers: a line is a document, and a bad byte costs only its line."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Final

from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines, Cut, Line, find_line_start
from clozeline.pipeline.ingest.formats.charset import detect_utf16, find_encoding
from clozeline.pipeline.ingest.formats.decompression import REASONS, InputFile, detect_codec
from clozeline.pipeline.ingest.readers import Counted, Item, Reader
from clozeline.pipeline.ingest.readers._fields import FIELD_REASONS

_BOM: Final = b"\xef\xbb\xbf"


@config_class
class EncodingOptions:
    """The encoding of a file of lines."""

    encoding: str = "utf-8"
    """encoding of the file by its name on the web, such as `windows-1252` or `shift_jis`; rows that are not of it are
    counted as `bad_utf8`; UTF-16 is known by its byte order mark"""

    def __post_init__(self) -> None:
        if (codec := find_encoding(self.encoding)) is None or codec.startswith("utf-16"):
            raise ValueError(
                f"encoding {self.encoding!r}: expected a name of the Encoding Standard, such as utf-8, windows-1252, "
                "shift_jis, gbk or euc-kr"
            )

    def decode(self, line: bytes) -> str:
        """Return the text of a line; UnicodeDecodeError if it has another encoding."""
        return line.decode(find_encoding(self.encoding) or self.encoding)


class LineFile(Reader):
    r"""A reader of lines split at `\n`; a subclass parses a line.

    The locator is the offset of the line in the decompressed stream. Of a truncated or damaged stream, all complete
    lines before the damage and in later members are read.
    """

    self_delimiting: ClassVar[bool] = False
    """true if a partial line is never a record, so that a record right after damage is a complete line"""
    line_reasons: ClassVar[tuple[str, ...]] = (*REASONS, *FIELD_REASONS, "line_bytes")

    Options = EncodingOptions

    @staticmethod
    def splittable(head: bytes) -> bool:
        """Return whether the file is uncompressed and not UTF-16, so that lines can be found from the middle."""
        return detect_codec(head) is None and detect_utf16(head) is None

    def first(self, path: InputFile, position: int) -> int:
        return find_line_start(path, position)

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        """Yield the lines that start in [start, end); all lines of a compressed file."""
        lines = ByteLines(path, start, end, self._limits)
        for offset, line in lines:
            item = self._make_item(line, offset)
            is_partial = not self.self_delimiting or isinstance(item, Counted)
            yield Counted("note", "resync") if lines.rest and is_partial and not isinstance(line, Cut) else item

    def _make_item(self, line: Line, offset: int) -> Item:
        if isinstance(line, Cut):
            return Counted("malformed", line.reason, offset)
        if isinstance(line, int):
            return Counted("malformed", "line_bytes", offset)
        raw = line.removeprefix(_BOM) if offset == 0 else line
        if not raw or raw.isspace():
            return Counted("ignored", "blank_line")
        try:
            return self.parse(self._options.decode(raw), offset, len(line))
        except UnicodeDecodeError:
            return Counted("malformed", "bad_utf8", offset)

    @abstractmethod
    def parse(self, line: str, offset: int, length: int) -> Item:
        """Return the record of a line that is not blank; `length` is in bytes."""
