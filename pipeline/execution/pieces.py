"""Intermediate files of pieces, each read separately by its offset and verified by its hash.

A file is the concatenated pieces, an index of (offset, length, hash), and the number of pieces with its hash.
Hashes cover the name of the file and the number of the piece too, so pieces and files cannot change positions.
"""

import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final, Self, TypeAlias

import xxhash

from clozeline.errors import IntegrityError, StorageError

_ROW: Final = struct.Struct("<QQQ")
_END: Final = struct.Struct("<QQ")

Bytes: TypeAlias = bytes | memoryview


def _hash(name: str, number: int, parts: Iterable[Bytes]) -> int:
    digest = xxhash.xxh3_64(f"{name}\0{number}\0".encode())
    for part in parts:
        digest.update(part)
    return digest.intdigest()


class PieceWriter:
    """Writer of pieces in order into a binary file; `name` is that of the finished file in the stage's folder."""

    def __init__(self, sink: BinaryIO, name: str) -> None:
        self._sink = sink
        self._name = name
        self._rows: list[tuple[int, int, int]] = []
        self._position = 0

    def add(self, parts: Iterable[Bytes]) -> None:
        """Append a piece: its parts, one after another."""
        chunks = list(parts)
        length = sum(self._sink.write(part) for part in chunks)
        self._rows.append((self._position, length, _hash(self._name, len(self._rows), chunks)))
        self._position += length

    def close(self) -> None:
        """Write the index."""
        self._sink.writelines(_ROW.pack(*row) for row in self._rows)
        self._sink.write(_END.pack(len(self._rows), _hash(self._name, len(self._rows), ())))


class PieceFile:
    """A finished file of pieces, open while the `with` block lasts; IntegrityError if it is not the one named so."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / name
        self._name = name
        try:
            self._file = self._path.open("rb", buffering=0)
        except OSError as error:
            reason = "missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
            raise StorageError(
                f"{self._path}: {reason}; delete {folder / 'tmp'} and run the stage again, which makes it again"
            ) from error
        self._stage = folder.name
        end = os.fstat(self._file.fileno()).st_size - _END.size
        self._count, checked = _END.unpack(self._read(_END.size, end)) if end >= 0 else (0, 0)
        self._index = end - self._count * _ROW.size
        if self._index < 0 or checked != _hash(name, self._count, ()):
            self._file.close()
            raise self._damage_error("its end")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return int(self._count)

    def piece(self, number: int) -> bytes:
        """Return a piece after comparing it with its hash."""
        if number >= self._count:
            raise self._damage_error(f"{self._count} pieces")
        offset, length, expected = _ROW.unpack(self._read(_ROW.size, self._index + number * _ROW.size))
        if offset + length > self._index:
            raise self._damage_error(f"the index of piece {number}")
        content = self._read(length, offset)
        if _hash(self._name, number, [content]) != expected:
            raise self._damage_error(f"piece {number}")
        return content

    def _read(self, length: int, offset: int) -> bytes:
        parts = []
        while length:  # one call reads at most 2 GiB
            part = os.pread(self._file.fileno(), length, offset)
            if not part:
                raise self._damage_error("its size")
            parts.append(part)
            length, offset = length - len(part), offset + len(part)
        return b"".join(parts)

    def _damage_error(self, what: str) -> IntegrityError:
        return IntegrityError(
            f"{self._path}: {what} is not what '{self._stage}' wrote: delete this file and run the stage again, which "
            "makes it again"
        )
