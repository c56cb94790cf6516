"""Read FASTA files, compressed or not: a sequence, or a part of a long one, is a document."""

import re
from collections.abc import Iterator
from typing import Final

from clozeline.configuration.config import Positive, config_class
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines, Line
from clozeline.pipeline.ingest.formats.decompression import (
    DAMAGE_REASONS,
    Damage,
    InputFile,
)
from clozeline.pipeline.ingest.readers import Item, RawRecord, Reader, SkippedRecord
from clozeline.pipeline.ingest.readers._rows import LineFileReader

_LETTERS: Final = re.compile(rb"[A-Za-z*.-]+")
_HEADER_CHARACTERS: Final = 1000  # characters of an id or a description


class FastaReader(Reader):
    """Reads the sequences of FASTA files.

    The first word of a header is its `id`, the others are its `description`.

    Lines of a sequence are joined; blank lines and comments (`;` or `#`) are ignored. A sequence
    longer than `max_letters` becomes several documents, whose `start` counts the letters before
    them. A final `*`, the stop of a protein, is removed and noted. Lower-case letters (soft
    masking), gaps and inner stops stay. The locator is the offset of the first letter in the
    decompressed stream. Other characters are `bad_letters`, a header without a sequence is `empty`,
    and text before the first header is `no_header`.

    Example:
        `>sp|P1 made`, `MKV`, `LA*` is the document MKVLA with the id `sp|P1` and the description
        `made`.
    """

    VERSION = 1
    holds_sequences = True
    suffixes = (".fasta", ".fa", ".faa", ".fna", ".ffn", ".frn", ".fas")
    reasons = (
        *DAMAGE_REASONS,
        "line_bytes",
        "no_header",
        "bad_letters",
        "empty",
    )

    @config_class
    class Options:
        """How long documents may be."""

        max_letters: Positive = 10_000
        """letters of a document; a longer sequence, such as a chromosome, is split"""

    @staticmethod
    def is_splittable(head: bytes) -> bool:
        """Return whether headers can be found from the middle: uncompressed, and not UTF-16."""
        return bool(LineFileReader.is_splittable(head))

    def find_first_record(self, path: InputFile, position: int) -> int:
        """Return where the first header from `position` on starts."""
        size = path.stat().st_size
        headers = (
            offset
            for offset, line in ByteLines(path, position, size, self._limits)
            if isinstance(line, bytes) and line.startswith(b">")
        )
        return next(headers, size) if position else 0

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        """Yield the sequences whose headers start in [start, end), or all of a compressed file."""
        with path.open("rb") as file:
            if self.is_splittable(file.read(4096)):
                start = self.find_first_record(path, start)
                end = self.find_first_record(path, end)

        lines = ByteLines(path, start, end, self._limits)
        record: _SequenceRecord | None = None
        skipping = (
            False  # lines without a header are one record; those after damage are not counted
        )

        for offset, line in _split_at_returns(lines):
            if isinstance(line, Damage):
                yield SkippedRecord.from_damage(line, offset)
                record = None
                skipping = True
            elif lines.is_after_damage:
                yield SkippedRecord("note", "resync")
            elif (line.removeprefix(b"\xef\xbb\xbf") if offset == 0 else line).startswith(b">"):
                yield from record.finish() if record else ()
                record = _SequenceRecord(
                    line.lstrip(b"\xef\xbb\xbf>"), offset, self._options.max_letters
                )
                skipping = False
            elif line.isspace() or not line or line.startswith((b";", b"#")):
                continue
            elif record is not None:
                yield from record.add(line, offset)
            elif not skipping:
                yield SkippedRecord(
                    "malformed",
                    "no_header",
                    offset,
                    detail="a sequence before the first header, which starts with '>'",
                )
                skipping = True

        yield from record.finish() if record else ()


def _split_at_returns(lines: ByteLines) -> Iterator[tuple[int, Line]]:
    r"""Yield the lines, which may also end with `\r`, as on old computers."""
    for offset, line in lines:
        if isinstance(line, bytes) and b"\r" in line[:-1]:
            for part in line.split(b"\r"):
                yield offset, part
                offset += len(part) + 1
        else:
            yield offset, line


class _SequenceRecord:
    """A sequence that is being read: its letters since the last document."""

    def __init__(self, header: bytes, offset: int, most: int) -> None:
        name, description, *_ = [*header.decode("utf-8", "replace").split(None, 1), "", ""]
        self._extra = {
            "id": name[:_HEADER_CHARACTERS],
            "description": description.strip()[:_HEADER_CHARACTERS],
        }
        self._most = most
        self._letters = bytearray()
        self._at = self._end = offset
        self._start = 0

    def add(self, line: bytes, offset: int) -> Iterator[Item]:
        """Add a line of letters; yield the pieces that are full."""
        letters = b"".join(line.split())
        taken = 0
        while taken < len(letters):
            if len(self._letters) == self._most:
                yield self._make_item()
            if not self._letters:
                self._at = offset + taken
            part = letters[taken : taken + self._most - len(self._letters)]
            self._letters += part
            taken += len(part)
            self._end = offset + taken

    def finish(self) -> Iterator[Item]:
        """Yield the last piece, without the stop at its end."""
        if self._letters.endswith(b"*"):
            self._letters = self._letters.removesuffix(b"*")
            yield SkippedRecord("note", "final_stop")
        if self._letters or not self._start:
            yield self._make_item()

    def _make_item(self) -> Item:
        letters = bytes(self._letters)
        start = self._start
        self._letters.clear()
        self._start = start + len(letters)

        if not letters:
            return SkippedRecord("malformed", "empty", self._at)
        if not _LETTERS.fullmatch(letters):
            other = _LETTERS.sub(b"", letters).decode("utf-8", "replace")[:1]
            return SkippedRecord(
                "malformed", "bad_letters", self._at, detail=f"{self._extra['id']} has {other!r}"
            )

        extra = {**self._extra, "start": start}
        return RawRecord(
            self._at, "fasta", self._end - self._at, letters.decode("ascii"), extra=extra
        )
