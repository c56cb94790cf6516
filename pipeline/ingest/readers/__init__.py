"""Readers: parse files into raw records.

Every record is yielded, or counted with a reason; a bad record never ends the file.

A reader is built with its options and the limits of the recipe. `read(path, start, end)` yields the
records whose first byte lies in [start, end). The ranges of a splittable file therefore hold every
record exactly once.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

from clozeline.configuration.config import NoOptions
from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.archives import (
    ARCHIVES,
    MemberFile,
    UnreadMember,
    detect_archive,
    iterate_members,
)
from clozeline.pipeline.ingest.formats.charset import detect_utf16
from clozeline.pipeline.ingest.formats.decompression import (
    Damage,
    InputFile,
    decompress_file,
    detect_codec,
    open_input,
)
from clozeline.pipeline.ingest.formats.file_types import find_tool, suffix_of
from clozeline.pipeline.ingest.formats.limits import LARGEST_WINDOW, InputLimits
from clozeline.pipeline.ingest.readers._read_task import ReadTask
from clozeline.pipeline.registries import READERS

_NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})


class RawRecord(NamedTuple):
    """A raw document. A NamedTuple, because creating a frozen dataclass takes six times as long."""

    locator: int  # where it starts: byte offset, row index, or 0 for an entire file
    locator_type: str  # type of `locator`; part of the document uid
    length: int  # bytes of the record in the source, or 1 for the row of a table
    text: str  # decoded, not yet normalized
    is_markup: bool = False  # true for HTML, from which the text must be extracted
    url: str | None = None
    date: int | None = None  # capture time in seconds since 1970, UTC
    flags: int = 0  # `FLAG_...` of pipeline/ingest/documents/document.py
    target_text: str | None = None  # the other side of a pair of aligned texts
    extra: Mapping[str, Any] = _NO_FIELDS  # source fields without a dedicated column
    language: str | None = None  # code that the source states
    stored: Mapping[str, Any] = _NO_FIELDS  # columns of an exported document, which stay


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """A record that is not a document: `ignored` on purpose, or `malformed`.

    A `note` counts something else, without a record.

    `locator` is where a malformed record starts, in the unit of the reader's documents.
    `detail` says what is wrong: a fault of JSON, the type of the text, or the missing key and the
    keys that exist.
    """

    group: Literal["ignored", "malformed", "note"]
    reason: str
    locator: int = field(default=0, compare=False)
    detail: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)
    """number of its first line in the file, from 1; 0: unknown"""
    lost_bytes: int = field(default=0, compare=False)
    """undecodable bytes of a compressed file at this point"""
    size: int = field(default=0, compare=False)
    """stored bytes of a malformed record; 0: unknown"""
    cells: tuple[str, ...] = field(default=(), compare=False)
    """texts of a damaged row, where `RowReader.keep_rows` was called"""

    @staticmethod
    def from_damage(damage: Damage, locator: int = 0) -> "SkippedRecord":
        """Return the malformed record at a damage."""
        return SkippedRecord("malformed", damage.reason, locator, lost_bytes=damage.lost_bytes)


Item: TypeAlias = RawRecord | SkippedRecord
NO_RECORDS: Final = SkippedRecord("note", "no_records")
"""A complete file without any record, such as a table without rows."""


class Reader(ABC):
    """Base class of readers.

    A reader that can start in the middle of a file overrides `is_splittable` and
    `find_first_record`.
    """

    VERSION: ClassVar[int]
    reasons: ClassVar[tuple[str, ...]]
    """reasons of `malformed`"""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """lower-case file name suffixes before a compression suffix; each belongs to one reader"""
    start: ClassVar[bytes] = b""
    """regular expression of first bytes, decompressed, that only it reads; empty: none"""
    start_suffix: ClassVar[str] = ""
    """suffix of the files whose `start` decides; empty: any"""
    holds_sequences: ClassVar[bool] = False
    """true if the texts are DNA or proteins, never prose"""
    reads_whole_files: ClassVar[bool] = False
    """true if a file is one record, or is split only after it was read"""
    reads_files: ClassVar[bool] = True
    """false if it fetches documents itself, in the tasks of `list_tasks`, so that its input has no
    `path`"""

    Options: ClassVar[Any] = NoOptions

    def __init__(self, options: Any, limits: InputLimits) -> None:
        self._options = options
        self._limits = limits

    @staticmethod
    def list_tasks(options: Any) -> Sequence[ReadTask]:
        """Return the tasks that fetch its documents, before the plan."""
        return ()

    @staticmethod
    def is_splittable(head: bytes) -> bool | None:
        """Return whether a file with these first bytes can be read by byte ranges.

        None: only if it is compressed in several members (`can_cut_at_members`).
        """
        return False

    def find_first_record(self, path: InputFile, position: int) -> int:
        """Return where the first record of a range from `position` starts, or the file size."""
        return position

    guess: str = ""
    """encoding of the file, where it was guessed"""

    def missing_keys(self) -> Sequence[str]:
        """Return the configured keys that none of the first 1,000 rows has."""
        return ()

    @abstractmethod
    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        """Yield the records that start in [start, end), in order; count all else with a reason."""


Readers: TypeAlias = Mapping[str, type[Reader]]
_HEAD_BYTES: Final = 4096
_FALLBACK_READER: Final = "text"
_HEAD_LIMITS: Final = InputLimits(window_bytes=LARGEST_WINDOW)
"""Limits for reading the first bytes of a file, which takes little memory."""


def detect_reader(path: InputFile, named: str | None = None) -> tuple[str, bool | None]:
    """Return the reader of a file, or the format of an archive, and its `Reader.is_splittable`.

    `named` is the configured reader; it reads the members of an archive, unless it has the suffix
    of the archive itself. Otherwise these decide, in this order: the first bytes after
    decompression, the suffix, `text`.
    """
    raw, head = _read_head(path)
    named_suffixes = READERS.load_class(named).suffixes if named else ()
    if (
        suffix_of(path.name) not in named_suffixes
        and (archive := detect_archive(path.name, raw, head)) is not None
    ):
        return archive, False

    if head.startswith(b"filedesc://"):
        raise ConfigurationError(
            f"{path}: ARC files are not supported: convert it to WARC with `warcio recompress "
            f"{path.name} {path.name.partition('.')[0]}.warc.gz`"
        )

    readers = _load_readers(tuple(READERS.available()))
    by_content = named or _match_content(readers, path, head)
    by_suffix = None if by_content else _match_suffix(readers, path)
    name = by_content or by_suffix or _FALLBACK_READER
    if by_suffix and (tool := find_tool("", head)):
        raise ConfigurationError(
            f"{path}: the content does not match the file name: {tool}. To read the file anyway, "
            f"name its reader: input='{{path: {path}, reader: {name}}}'"
        )

    return name, (readers.get(name) or READERS.load_class(name)).is_splittable(raw)


def _read_head(path: InputFile) -> tuple[bytes, bytes]:
    """Return the first bytes of a file, and of its content: decompressed, UTF-16 as UTF-8."""
    with open_input(path) as file:
        raw = file.read(_HEAD_BYTES)
    content: bytes | Damage = raw
    if detect_codec(raw) is not None:
        content = next(decompress_file(path, _HEAD_LIMITS, resume=False), b"")

    head = b"" if isinstance(content, Damage) else content[:_HEAD_BYTES]
    if (encoding := detect_utf16(head)) is not None:
        head = head.decode(encoding, "ignore").encode("utf-8", "ignore")
    return raw, head


def detect_members(
    path: InputFile, archive_format: str, limits: InputLimits, scratch: Path, named: str | None
) -> Iterator[tuple[MemberFile | UnreadMember, str]]:
    """Yield the members of an archive with their readers, `named` or detected.

    A member that is not read comes with its reason, and "" for the reader.
    """
    for member in iterate_members(path, archive_format, limits, scratch):
        reader = ""

        if isinstance(member, MemberFile):
            # a content of an unsupported type has no reader
            with suppress(ConfigurationError):
                reader = detect_reader(member, named)[0]
            # without a configured reader, a guess is not enough
            if named is None and member.stat().st_size and is_fallback_reader(member, reader):
                reader = ""
            if not reader or reader in ARCHIVES:
                member = UnreadMember(member.name, "nested_archive" if reader else "no_reader")
                reader = ""

        yield member, reader


def suggest_tool(path: InputFile) -> str:
    """Return how to convert a file that no reader supports; "" if unknown."""
    return find_tool(path.name, _read_head(path)[1])


def is_fallback_reader(path: InputFile, reader: str | None = None) -> bool:
    """Return whether neither content nor name of a file decide, so that `text` is a guess."""
    chosen = detect_reader(path)[0] if reader is None else reader
    readers = _load_readers(tuple(READERS.available()))
    return _match_suffix(readers, path) is None and chosen == _FALLBACK_READER


def _match_content(readers: Readers, path: InputFile, head: bytes) -> str | None:
    marks = ("", suffix_of(path.name))
    return _find_reader(
        readers,
        path,
        "start",
        lambda reader: (
            reader.start and reader.start_suffix in marks and re.match(reader.start, head)
        ),
    )


def _match_suffix(readers: Readers, path: InputFile) -> str | None:
    suffix = suffix_of(path.name)
    return _find_reader(readers, path, f"suffix {suffix}", lambda each: suffix in each.suffixes)


def _find_reader(
    readers: Readers, path: InputFile, mark: str, reads: Callable[[type[Reader]], object]
) -> str | None:
    """Return the reader that reads a file by its suffix or first bytes; None: no reader does.

    Raises:
        ConfigurationError: several do.
    """
    found = [name for name, reader in readers.items() if reads(reader)]
    if len(found) > 1:
        places = " and ".join(readers[name].__module__ for name in found)
        raise ConfigurationError(
            f"{path}: several readers read files of this {mark}: {places}; name the reader of the "
            f"input, such as `reader: {found[0]}`, change the `suffixes` or `start` of one, or "
            "hide its extension with CLOZELINE_HIDE"
        )
    return next(iter(found), None)


@lru_cache(4)
def _load_readers(names: tuple[str, ...]) -> Readers:
    """Return all readers, which have these names; one that is broken is warned of once."""
    return READERS.classes()
