"""Readers: files to raw records. Every record is either given or counted with a reason; none stops the file.

A reader is built with its options and the recipe's limits; `read(path, start, end)` gives the records whose first
byte lies in [start, end), so the units of a file that can be split hold every record exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias

from clozeline.errors import StorageError
from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.charset import detect_utf16
from clozeline.pipeline.ingest.formats.decompression import Damage, decompress_file, detect_codec
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.registry import find, names


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One raw document.

    Args:
        locator: where it begins: byte offset, row number, or 0 for a whole file.
        kind: what `locator` counts; part of the document uid.
        length: bytes of the record in the source, or 1 for a table's row.
        text: decoded, not yet normalised.
        markup: whether `text` is HTML from which text must be extracted.
        url: address it was captured from.
        date: capture time in seconds since 1970, UTC.
        flags: `FLAG_...` of pipeline/ingest/documents/document.py.
        target_text: the other side of a pair of aligned texts.
        extra: fields of the source that have no column of their own.
        span: bytes of the content that it takes, after decompression; None: `length`; 0 for a table's row.
    """

    locator: int
    kind: str
    length: int
    text: str
    markup: bool = False
    url: str | None = None
    date: int | None = None
    flags: int = 0
    target_text: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    span: int | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """A record without a document, `ignored` by intent or `malformed`; or a `note` about something else.

    `bytes` counts the content that it takes, after decompression. `lacks` says why there is no text: which key is
    missing, and which keys there are, or of which type it is. `detail` says what is wrong with the first record.
    """

    group: Literal["ignored", "malformed", "note"]
    reason: str
    bytes: int = 0
    lacks: str = field(default="", compare=False)
    detail: str = field(default="", compare=False)


Item: TypeAlias = RawRecord | Counted


class Reader(Protocol):
    """The interface of readers."""

    VERSION: ClassVar[int]
    reasons: ClassVar[tuple[str, ...]]
    """reasons of `malformed` that it counts"""

    suffixes: ClassVar[tuple[str, ...]]
    """endings of file names that it reads, in lower case, without that of a compression; no two readers share one"""

    def __init__(self, options: Any, limits: Limits) -> None: ...

    @staticmethod
    def splittable(head: bytes) -> bool:
        """Return whether a file with these first bytes can be read by byte ranges."""

    def first(self, path: Path, position: int) -> int:
        """Return where the first record begins that a range from `position` holds; the file's size where none does.

        A range owns the bytes from its own first record to that of the next range.
        """

    def read(self, path: Path, start: int, end: int, account: Account) -> Iterator[Item]:
        """Return records that begin in [start, end), in order, and count in `account` what the file holds."""


class OneRange:
    """A base of readers whose files are one range: no record can be found from the middle of a file."""

    @staticmethod
    def splittable(head: bytes) -> bool:
        """Return False."""
        return False

    def first(self, path: Path, position: int) -> int:
        """Return the position."""
        return position


_READERS: Final = "clozeline.pipeline.ingest.readers"
_HEAD_BYTES: Final = 4096
_GUESS: Final = "text"
_COMPRESSIONS: Final = (".gz", ".zst", ".lz4", ".bz2", ".xz")


def detect(path: Path, named: str | None = None) -> tuple[str, bool]:
    """Return the name of the reader of a file, and whether the file can be split.

    `named` wins; else the first bytes (after decompression) decide, then the extension, then `text`.

    Raises:
        StorageError: the file cannot be opened.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_HEAD_BYTES)
        content = raw if detect_codec(raw) is None else next(decompress_file(path, Limits(), resume=False), b"")
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror or error})") from error
    head = b"" if isinstance(content, Damage) else content[:_HEAD_BYTES]
    if (encoding := detect_utf16(head)) is not None:
        head = head.decode(encoding, "ignore").encode("utf-8", "ignore")
    name = named or _by_magic(head) or _by_content(path, head) or _by_suffix(path) or _GUESS
    splittable: bool = find(_READERS, name).splittable(raw)
    return name, splittable


def is_guess(path: Path, reader: str | None = None) -> bool:
    """Return whether `detect` chooses a reader because neither the content nor the name of a file tells one."""
    return _by_suffix(path) is None and (detect(path)[0] if reader is None else reader) == _GUESS


def _by_magic(head: bytes) -> str | None:
    if head.startswith((b"WARC/", b"filedesc://")):
        return "warc"
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ARROW1"):
        return "arrow"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:64].lower()
    return "html" if text.startswith((b"<!doctype html", b"<html")) else None


def _by_content(path: Path, head: bytes) -> str | None:
    """Return the reader of arrays where a `.json` file holds one: its name alone could mean lines too."""
    begins = head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
    return "json_array" if begins and _suffix(path) == ".json" else None


def _by_suffix(path: Path) -> str | None:
    suffix = _suffix(path)
    return next((reader for reader in names(_READERS) if suffix in find(_READERS, reader).suffixes), None)


def _suffix(path: Path) -> str:
    """Return the ending of a file's name in lower case, without that of a compression."""
    name = PurePosixPath(path.name.lower())
    return PurePosixPath(name.stem).suffix if name.suffix in _COMPRESSIONS else name.suffix
