"""Shuffle data: each unit of one pass writes a piece for each unit of a second pass.

If many units write pieces, a pass in between bundles their files: the second pass opens one file
for 256 units. With n units on both sides, that makes 2 n + n² / 256 opens instead of n².

A file of pieces consists of the concatenated pieces, an index of (offset, length, hash), and the
number of pieces with its hash. Each hash covers the name of the file and the index of the piece
too, so that swapped pieces and files are detected.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final, Self, TypeAlias

import xxhash

from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import TEMPORARY, Counts, Output

# Most files in one bundle; a process opens at most as many files at a time.
_BUNDLE_FILES: Final = 256
# Least number of (file, destination) pairs for which files are bundled.
_BUNDLED_OPENS: Final = 8_192
_INDEX_ENTRY: Final = struct.Struct("<QQQ")
_INDEX_END: Final = struct.Struct("<QQ")

Bytes: TypeAlias = bytes | memoryview


def _hash(name: str, number: int, parts: Iterable[Bytes]) -> int:
    digest = xxhash.xxh3_64(f"{name}\0{number}\0".encode())
    for part in parts:
        digest.update(part)
    return digest.intdigest()


class PieceWriter:
    """Writes pieces in order to a binary file, which will be named `name` in the stage's folder."""

    def __init__(self, sink: BinaryIO, name: str) -> None:
        self._sink = sink
        self._name = name
        self._rows: list[tuple[int, int, int]] = []
        self._position = 0

    def add(self, parts: Iterable[Bytes]) -> None:
        """Append a piece, given as consecutive parts."""
        chunks = list(parts)
        length = sum(self._sink.write(part) for part in chunks)
        self._rows.append((self._position, length, _hash(self._name, len(self._rows), chunks)))
        self._position += length

    def close(self) -> None:
        """Write the index."""
        self._sink.writelines(_INDEX_ENTRY.pack(*row) for row in self._rows)
        self._sink.write(_INDEX_END.pack(len(self._rows), _hash(self._name, len(self._rows), ())))


class PieceFile:
    """A finished file of pieces, which a `with` block closes.

    Raises:
        IntegrityError: the file is damaged, or is another file with the expected name.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / name
        self._name = name

        try:
            self._file = self._path.open("rb")
        except OSError as error:
            reason = (
                "missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
            )
            raise StorageError(
                f"{self._path}: {reason}; delete {folder / TEMPORARY} and run the stage again, "
                "which writes it again"
            ) from error

        end = os.fstat(self._file.fileno()).st_size - _INDEX_END.size
        self._count, checked = (
            _INDEX_END.unpack(self._read(_INDEX_END.size, end)) if end >= 0 else (0, 0)
        )
        self._index = end - self._count * _INDEX_ENTRY.size
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
        """Return a piece after verifying its hash."""
        if number >= self._count:
            raise self._damage_error(f"{self._count} pieces")
        offset, length, expected = _INDEX_ENTRY.unpack(
            self._read(_INDEX_ENTRY.size, self._index + number * _INDEX_ENTRY.size)
        )
        if offset + length > self._index:
            raise self._damage_error(f"the index of piece {number}")
        content = self._read(length, offset)
        if _hash(self._name, number, [content]) != expected:
            raise self._damage_error(f"piece {number}")
        return content

    def _read(self, length: int, offset: int) -> bytes:
        self._file.seek(offset)
        content = self._file.read(length)
        if len(content) < length:
            raise self._damage_error("its size")
        return content

    def _damage_error(self, what: str) -> IntegrityError:
        return IntegrityError(
            f"{self._path}: {what} has changed since it was written: delete this file and run the "
            "stage again, which writes it again"
        )


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Names and order of the files of a shuffle.

    A unit of the first pass writes its pieces in the order of their destinations, 0 to
    `destinations` - 1, and may do so several times.
    """

    name: str
    """name of its folder"""
    sources: int
    """units of the first pass"""
    destinations: int
    """units of the second pass"""

    def file(self, source: int) -> str:
        """Return the name of a source's file, relative to the stage's folder."""
        return f"{TEMPORARY}/{self.name}/{source:06d}.pieces"

    def bundle(self, number: int) -> str:
        """Return the name of a bundle, relative to the stage's folder."""
        return f"{TEMPORARY}/{self.name}-bundles/{number:06d}.pieces"

    @property
    def bundles(self) -> int:
        """Number of bundles; 0 if fewer than 8,192 opens are needed without them."""
        opens = self.sources * self.destinations
        return -(-self.sources // _BUNDLE_FILES) if opens >= _BUNDLED_OPENS else 0

    def passes(self) -> list[Pass[Any]]:
        """Return the pass that bundles the files, if there are bundles."""
        return [Bundles(self)] if self.bundles else []

    def write(self, output: Output, source: int) -> AbstractContextManager[PieceWriter]:
        """Yield the writer of a source's file."""
        return _write(output, self.file(source))

    def read(self, folder: Path, destination: int) -> Iterator[bytes]:
        """Yield the pieces for a destination, in the order of the sources."""
        for number in range(self.bundles or self.sources):
            name = self.bundle(number) if self.bundles else self.file(number)
            with PieceFile(folder, name) as file:
                yield from self.pieces(file, destination)

    def pieces(self, file: PieceFile, destination: int) -> Iterator[bytes]:
        """Yield the pieces of a file for a destination."""
        return map(file.piece, range(destination, len(file), self.destinations))


@contextmanager
def _write(output: Output, name: str) -> Iterator[PieceWriter]:
    with output.file(name) as path, path.open("wb") as sink:
        writer = PieceWriter(sink, name)
        yield writer
        writer.close()


class Bundles(Pass[Counts]):
    """Bundles the files of 256 units of the previous pass, ordered by destination."""

    intermediate: ClassVar[bool] = True

    def __init__(self, shuffle: Shuffle) -> None:
        self.shuffle = shuffle
        self.name = f"{shuffle.name}-bundles"
        self.units = shuffle.bundles

    def run(self, unit: int, output: Output) -> Counts:
        shuffle = self.shuffle
        first = unit * _BUNDLE_FILES
        members = range(first, min(shuffle.sources, first + _BUNDLE_FILES))
        with _write(output, shuffle.bundle(unit)) as writer, ExitStack() as stack:
            files = [
                stack.enter_context(PieceFile(output.folder, shuffle.file(member)))
                for member in members
            ]
            for destination in range(shuffle.destinations):
                writer.add(piece for file in files for piece in shuffle.pieces(file, destination))
        return {}
