"""Read the members of a tar (compressed or not) or zip file, each like a separate file.

No file is created under a member's name: one member at a time is in memory or in a temporary
file. Links, devices and names that lead out of the archive are counted, never followed.
"""

import io
import posixpath
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, Literal, NamedTuple, cast

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
_TAR_ERRORS: Final = (
    tarfile.TarError,
    OSError,
    ValueError,
    EOFError,
    OverflowError,
    RecursionError,
    struct.error,
)
_ZIP_ERRORS: Final = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    OSError,
    NotImplementedError,
    RuntimeError,
    struct.error,
)


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

    def is_file(self) -> bool:
        return True


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


def _is_unsafe(name: str) -> bool:
    """Return whether a name leads out of the folder into which it would be unpacked."""
    parts = name.replace("\\", "/").split("/")
    return name.startswith(("/", "\\")) or ".." in parts or parts[0].endswith(":")


def _reason_to_skip(name: str) -> str:
    """Return why a file of this name is skipped, as in folders; "" if it is read."""
    parts = name.split("/")

    if any(part.startswith(".") for part in parts):
        return "hidden"
    file_type = reason_to_skip(name)
    return file_type and f"skipped {file_type}"


def _find_fault(name: str, *, is_file: bool) -> str:
    return "unsafe_name" if _is_unsafe(name) else "" if is_file else "link"


def _copy_content(
    source: io.BufferedIOBase | BinaryIO, target: Path, limits: InputLimits, compressed: int
) -> bytes | Path:
    """Return the content of a member, or the temporary file that holds it.

    Raises:
        Damage: the content is suspiciously large.
    """
    pieces = []
    produced = 0

    while piece := source.read(_COPY_BYTES):
        produced += len(piece)
        if is_bomb(limits, compressed, produced):
            raise Damage("bomb")
        pieces.append(piece)
        if produced > _MOST_MEMORY_BYTES:
            break
    else:
        return b"".join(pieces)

    # remove the former member first: some file systems store a truncated file at once
    target.unlink(missing_ok=True)

    with target.open("wb") as file:
        file.writelines(pieces)
        while piece := source.read(_COPY_BYTES):
            produced += len(piece)
            if is_bomb(limits, compressed, produced):
                raise Damage("bomb")
            file.write(piece)

    return target


class _TarHeader(tarfile.TarInfo):
    """A tar header that counts invalid blocks and bounds the size of names and extra fields."""

    bad_blocks = 0
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

        if header.size < 0 or (
            header.type in _EXTRA_FIELD_TYPES and header.size > _MOST_HEADER_BYTES
        ):
            cls.bad_blocks += 1
            raise tarfile.InvalidHeaderError("size")  # type: ignore[attr-defined]

        return header


class _DecompressedStream(io.RawIOBase):
    """The decompressed content of a file up to the first damage; `reason` names the damage."""

    def __init__(self, path: InputFile, limits: InputLimits) -> None:
        self.reason = ""
        self.ended = False
        self.lost_bytes = 0
        self._pieces = decompress_file(path, limits, resume=False)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest and not self.ended:
            piece = next(self._pieces, b"")
            if isinstance(piece, Damage):
                self.reason = piece.reason
                self.lost_bytes = piece.lost_bytes
                piece = b""
            self._rest = memoryview(piece)
            self.ended = not piece

        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _iterate_tar(
    path: InputFile, limits: InputLimits, content: Path
) -> Iterator[tuple[str, bytes | Path] | UnreadMember]:
    header: type[_TarHeader] = type("Header", (_TarHeader,), {})
    stream = _DecompressedStream(path, limits)
    last = ""

    try:
        tar: Any = tarfile.open(  # noqa: SIM115
            fileobj=io.BufferedReader(stream, _COPY_BYTES),
            mode="r|",
            tarinfo=header,
            ignore_zeros=True,
        )
    except _TAR_ERRORS:
        yield UnreadMember(path.name, stream.reason or "damaged", lost_bytes=stream.lost_bytes)
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
            copied = _copy_content(tar.extractfile(member), content, limits, member.size)
        except Damage as damage:
            yield UnreadMember(last, damage.reason)
            return
        except _TAR_ERRORS:
            yield UnreadMember(last, stream.reason or "truncated", lost_bytes=stream.lost_bytes)
            return

        yield last, copied

    if stream.reason or not header.ended:
        yield UnreadMember(
            f"behind {last}", stream.reason or "truncated", lost_bytes=stream.lost_bytes
        )
    elif header.bad_blocks:
        yield UnreadMember(f"behind {last}", "damaged")


def _next_member(tar: Any, stream: _DecompressedStream) -> tarfile.TarInfo | None:
    """Return the next member with a valid header, or None at the end."""
    if tar.firstmember is not None:  # opening the file has read the first member
        first: tarfile.TarInfo = tar.next()
        return first

    position = -1
    while not (stream.ended and position == tar.fileobj.tell()):
        position = tar.fileobj.tell()
        # skip the remaining content of the last member, which may claim any size
        while (left := tar.offset - tar.fileobj.tell()) > 0 and tar.fileobj.read(
            min(left, _COPY_BYTES)
        ):
            pass

        if left > 0:
            return None
        try:
            member: tarfile.TarInfo | None = tar.next()
        except _TAR_ERRORS:
            tar.tarinfo.bad_blocks += 1
            tar.offset = (
                -(-max(tar.offset + 1, tar.fileobj.tell()) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
            )
            continue

        return member

    return None


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
        except _ZIP_ERRORS:
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
                with archive.open(member) as source:
                    copied = _copy_content(
                        cast(BinaryIO, source), content, limits, member.compress_size
                    )
            except Damage as damage:
                yield UnreadMember(name, damage.reason)
                continue
            except _ZIP_ERRORS:
                yield UnreadMember(name, "damaged")
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
    if (start := tail.rfind(b"PK\x06\x06")) >= 0 and len(tail) >= start + 48:
        return int(struct.unpack_from("<Q", tail, start + 40)[0])
    if (start := tail.rfind(b"PK\x05\x06")) >= 0 and len(tail) >= start + 16:
        return int(struct.unpack_from("<I", tail, start + 12)[0])
    return 0
