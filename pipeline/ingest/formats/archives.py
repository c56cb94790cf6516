"""Read the members of a tar (compressed or not) or zip file, each like a separate file.

No file is created under a member's name: one member at a time is in memory or in a temporary
file. Links, devices and names that lead out of the archive are counted, never followed.
"""

import io
import posixpath
import re
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, BinaryIO, Final, Literal, NamedTuple, cast

from clozeline.pipeline.ingest.formats.decompression import (
    Damage,
    FileStat,
    InputFile,
    decompress_file,
    is_bomb,
)
from clozeline.pipeline.ingest.formats.file_types import reason_to_skip
from clozeline.pipeline.ingest.formats.limits import InputLimits

ARCHIVES: Final = ("tar", "zip")
"""Formats of archives, named like the readers of other files."""
ARCHIVE_REASONS: Final = (
    "bomb",
    "damaged",
    "encrypted",
    "link",
    "nested_archive",
    "no_reader",
    "repeated_name",
    "too_many",
    "truncated",
    "unsafe_name",
)
"""Reasons why a member, or everything behind it, is not read."""
_ZIP_MAGICS: Final = (b"PK\x03\x04", b"PK\x05\x06")
_COPY_BYTES: Final = 1 << 20
"""Bytes that are copied at a time."""
_MOST_MEMORY_BYTES: Final = 1 << 23
"""Largest member, in bytes, that is held in memory instead of a temporary file."""
_MOST_MEMBERS: Final = 1 << 22
"""Maximum number of files that are read from one archive."""
_MOST_DIRECTORY_BYTES: Final = 1 << 28
"""Maximum size of the member list at the end of a zip file, which is read into memory."""
_MOST_HEADER_BYTES: Final = 1 << 20
"""Maximum size of a long name or of extra header fields of a tar member."""
_EXTRA_FIELD_TYPES: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_SLICE_BYTES: Final = 1 << 14
"""Bytes that `tarfile` gets at a time; it copies them with each header."""
_ERRORS: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    ValueError,
    EOFError,
    OverflowError,
    RuntimeError,
    struct.error,
)
"""Exceptions that the libraries raise on damaged archives."""
_DIRECTORY_SIZES: Final = (
    re.compile(rb".*PK\x06\x06.{36}(.{8})", re.DOTALL),
    re.compile(rb".*PK\x05\x06.{8}(.{4})", re.DOTALL),
)
"""The size of the member list in the last records of a zip file, of the large form first."""


class MemberStat(NamedTuple):
    """The size of a member, with the field name of `Path.stat`."""

    st_size: int


@dataclass(frozen=True)
class MemberFile:
    """A member of an archive that readers can open; valid until the next member is read."""

    archive: str
    name: str
    content: bytes | Path

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    def __str__(self) -> str:
        return f"{self.archive}!{self.name}"

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        return (
            io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content.open(mode)
        )

    def stat(self) -> FileStat:
        return (
            MemberStat(len(self.content))
            if isinstance(self.content, bytes)
            else self.content.stat()
        )


class UnreadMember(NamedTuple):
    """A member of an archive that is not read, or the unread rest of one, with the reason."""

    name: str
    reason: str
    group: Literal["ignored", "malformed"] = "malformed"
    lost_bytes: int = 0  # undecodable bytes of the archive


def detect_archive(name: str, raw: bytes, head: bytes) -> str | None:
    """Return the format of an archive, or None for any other file.

    `raw` are its first bytes, `head` the same after decompression.
    """
    if raw.startswith(_ZIP_MAGICS) and name.lower().endswith(".zip"):
        return "zip"
    try:
        tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.TarError:
        return None
    return "tar"


def iterate_members(
    path: InputFile, archive_format: str, limits: InputLimits, folder: Path
) -> Iterator[MemberFile | UnreadMember]:
    """Yield the members in order, including skipped ones; large contents lie below `folder`."""
    seen: set[str] = set()

    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        content = Path(temporary) / "member"
        members = _iterate_tar if archive_format == "tar" else _iterate_zip
        for member in members(path, limits, content):
            if isinstance(member, UnreadMember):
                yield member
                continue

            # read each name once, and skip the same files as in a folder
            name, copied = member

            if reason := _reason_to_skip(name):
                yield UnreadMember(name, reason, "ignored")
            elif name in seen:
                yield UnreadMember(name, "repeated_name")
            elif len(seen) == _MOST_MEMBERS:
                yield UnreadMember(name, "too_many")
                return
            else:
                seen.add(name)
                yield MemberFile(str(path), name, copied)


def _reason_to_skip(name: str) -> str:
    """Return why a file of this name is skipped, as in folders; "" if it is read."""
    parts = name.split("/")

    if any(part.startswith(".") for part in parts):
        return "hidden"
    file_type = reason_to_skip(name)
    return file_type and f"skipped {file_type}"


def _find_fault(name: str, *, is_file: bool) -> str:
    """Return why a member is not read: its name leads out of the folder, or it is no file."""
    path = PureWindowsPath(name)  # which knows the separators and roots of every system
    return "unsafe_name" if path.root or ".." in path.parts else "" if is_file else "link"


def _copy_content(
    open_content: Callable[[], IO[bytes]], target: Path, limits: InputLimits, compressed: int
) -> bytes | Path:
    """Return the content of a member, or the temporary file that holds it.

    Raises:
        Damage: the content is suspiciously large, or cannot be read.
    """
    pieces = _read_pieces(open_content, limits, compressed)
    start = b"".join(islice(pieces, _MOST_MEMORY_BYTES // _COPY_BYTES))
    if not (following := next(pieces, b"")):
        return start

    # remove the former member first: some file systems store a truncated file at once
    target.unlink(missing_ok=True)
    with target.open("wb") as file:
        file.writelines(chain((start, following), pieces))
    return target


def _read_pieces(
    open_content: Callable[[], IO[bytes]], limits: InputLimits, compressed: int
) -> Iterator[bytes]:
    produced = 0
    try:
        with open_content() as source:
            while piece := source.read(_COPY_BYTES):
                produced += len(piece)
                if is_bomb(limits, compressed, produced):
                    raise Damage("bomb")
                yield piece
    except _ERRORS as error:
        raise Damage("damaged") from error


class _TarHeader(tarfile.TarInfo):
    """A tar header that counts invalid blocks and bounds the sizes that headers claim."""

    bad_blocks = 0
    largest = 0
    ended = False

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_TarHeader":
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            cls.ended = True
            raise
        except tarfile.InvalidHeaderError:  # type: ignore[attr-defined]
            cls.bad_blocks += 1
            raise

        is_extra = header.type in _EXTRA_FIELD_TYPES
        if not 0 <= header.size <= (_MOST_HEADER_BYTES if is_extra else cls.largest):
            cls.bad_blocks += 1
            raise tarfile.InvalidHeaderError("size")  # type: ignore[attr-defined]

        return header


class _TarStream:
    """The decompressed content of a file up to the first damage."""

    def __init__(self, path: InputFile, limits: InputLimits) -> None:
        self.damage = Damage("")
        self.ended = False
        self._slices = self._iterate_slices(decompress_file(path, limits, resume=False))

    def read(self, _: int) -> bytes:
        """Return the next bytes, however many `tarfile` wants."""
        content = next(self._slices, b"")
        self.ended = not content
        return content

    def _iterate_slices(self, pieces: Iterator[bytes | Damage]) -> Iterator[bytes]:
        for piece in pieces:
            if isinstance(piece, Damage):
                self.damage = piece
                return
            for at in range(0, len(piece), _SLICE_BYTES):
                yield piece[at : at + _SLICE_BYTES]

    def end(self, name: str, reason: str = "truncated") -> UnreadMember:
        """Return what is not read at the end, with the damage as the reason if there is one."""
        return UnreadMember(name, self.damage.reason or reason, lost_bytes=self.damage.lost_bytes)


def _iterate_tar(
    path: InputFile, limits: InputLimits, content: Path
) -> Iterator[tuple[str, bytes | Path] | UnreadMember]:
    claims = {"largest": limits.decompressed_bytes}
    header: type[_TarHeader] = type("Header", (_TarHeader,), claims)
    stream = _TarStream(path, limits)
    last = ""

    try:
        tar: Any = tarfile.open(  # noqa: SIM115
            fileobj=cast(BinaryIO, stream),
            mode="r|",
            bufsize=_COPY_BYTES,
            tarinfo=header,
            ignore_zeros=True,
        )
    except _ERRORS:
        yield stream.end(path.name, "damaged")
        return

    while (member := _next_member(tar, stream)) is not None:
        if header.bad_blocks:
            yield UnreadMember(f"behind {last}" if last else path.name, "damaged")

        # otherwise `tarfile` would hold all members of the archive in memory
        tar.members.clear()
        header.bad_blocks = 0
        header.ended = False
        if member.isdir():
            continue

        last = posixpath.normpath(member.name)
        if fault := _find_fault(member.name, is_file=member.isreg() and not member.issparse()):
            yield UnreadMember(member.name, fault)
            continue

        try:
            copied = _copy_content(partial(tar.extractfile, member), content, limits, member.size)
        except Damage as damage:
            yield stream.end(last, damage.reason if damage.reason == "bomb" else "truncated")
            return

        yield last, copied

    if stream.damage.reason or not header.ended:
        yield stream.end(f"behind {last}")
    elif header.bad_blocks:
        yield UnreadMember(f"behind {last}", "damaged")


def _next_member(tar: Any, stream: _TarStream) -> tarfile.TarInfo | None:
    """Return the next member with a valid header, or None at the end."""
    while True:
        try:
            member: tarfile.TarInfo | None = tar.next()
        except _ERRORS:
            if stream.ended:
                return None
            tar.tarinfo.bad_blocks += 1
            tar.offset = (
                -(-max(tar.offset + 1, tar.fileobj.tell()) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
            )
        else:
            return member


def _iterate_zip(
    path: InputFile, limits: InputLimits, content: Path
) -> Iterator[tuple[str, bytes | Path] | UnreadMember]:
    size = path.stat().st_size
    produced = 0

    with path.open("rb") as file:
        if _read_directory_size(file, size) > _MOST_DIRECTORY_BYTES:
            yield UnreadMember(path.name, "too_many")
            return

        try:
            archive = zipfile.ZipFile(file)
        except _ERRORS:
            yield UnreadMember(path.name, "damaged")
            return

        for member in archive.infolist():
            name = posixpath.normpath(member.filename) if member.filename else ""
            is_link = (member.external_attr >> 16) & 0o170000 == 0o120000
            if member.is_dir():
                continue
            if fault := _find_fault(member.filename, is_file=not is_link):
                yield UnreadMember(member.filename, fault)
                continue

            if member.flag_bits & 1:
                yield UnreadMember(name, "encrypted")
                continue

            try:
                opener = partial(archive.open, member)
                copied = _copy_content(opener, content, limits, member.compress_size)
            except Damage as damage:
                yield UnreadMember(name, damage.reason)
                continue

            # many small members may be a bomb together
            produced += len(copied) if isinstance(copied, bytes) else copied.stat().st_size
            if is_bomb(limits, size, produced):
                yield UnreadMember(name, "bomb")
                return

            yield name, copied


def _read_directory_size(file: BinaryIO, size: int) -> int:
    """Return the size of the member list as the end of a zip file states it; 0 if absent."""
    file.seek(max(0, size - (1 << 17)))
    tail = file.read()
    found = next(filter(None, (size.match(tail) for size in _DIRECTORY_SIZES)), None)
    return int.from_bytes(found[1], "little") if found else 0
