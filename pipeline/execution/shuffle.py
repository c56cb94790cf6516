"""Shuffle data: each unit of one pass writes a piece for each unit of a second pass.

If many units write pieces, a pass in between bundles their files: the second pass opens one file
for 256 units. With n units on both sides, that makes 2 n + n² / 256 opens instead of n².

A file of pieces consists of the concatenated pieces, an index of (offset, length, hash), and the
number of pieces with its hash. Each hash covers the name of the file and the index of the piece
too, so that swapped pieces and files are detected.
"""

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Self, TypeAlias

import numpy as np
import xxhash

from clozeline.configuration.config import config_digest
from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import TEMPORARY, Counts, KnownRecords, Output

# Most files in one bundle; a process opens at most as many files at a time.
_BUNDLE_FILES: Final = 256
# Least number of (file, destination) pairs for which files are bundled.
_BUNDLED_OPENS: Final = 8_192
_BUNDLES_VERSION: Final = 1
_INDEX_ENTRY: Final = struct.Struct("<QQQ")
_INDEX_END: Final = struct.Struct("<QQ")

NOTHING: Final = f"{0:016x}"
"""Digest of no pieces."""

Bytes: TypeAlias = bytes | memoryview


def _hash(name: str, number: int, parts: Iterable[Bytes]) -> int:
    digest = xxhash.xxh3_64(f"{name}\0{number}\0".encode())
    for part in parts:
        digest.update(part)
    return digest.intdigest()


def _hash_content(parts: Iterable[Bytes]) -> int:
    digest = xxhash.xxh3_64()
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
        self.contents: list[int] = []
        """hash of the content of each piece, 0 for an empty one"""

    def add(self, parts: Iterable[Bytes]) -> None:
        """Append a piece, given as consecutive parts."""
        chunks = list(parts)
        length = sum(self._sink.write(part) for part in chunks)
        self._rows.append((self._position, length, _hash(self._name, len(self._rows), chunks)))
        self._position += length
        self.contents.append(_hash_content(chunks) if length else 0)

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
    `destinations` - 1, and may do so several times. Its file does not depend on its number.
    """

    name: str
    """name of its folder"""
    sources: tuple[str, ...]
    """names of the units of the first pass, in order"""
    destinations: int
    """units of the second pass"""
    writer: str
    """name of the first pass"""

    def file(self, source: str) -> str:
        """Return the name of a source's file, relative to the stage's folder."""
        return f"{TEMPORARY}/{self.name}/{source}.pieces"

    def digests_file(self, source: str) -> str:
        """Return the name of the digests of a source's pieces, relative to the stage's folder."""
        return f"digests/{self.name}/{source}.u64"

    def bundle(self, number: int) -> str:
        """Return the name of a bundle, relative to the stage's folder."""
        return f"{TEMPORARY}/{self.name}-bundles/{number:06d}.pieces"

    def members(self, number: int) -> tuple[str, ...]:
        """Return the sources of a bundle."""
        return self.sources[number * _BUNDLE_FILES :][:_BUNDLE_FILES]

    @property
    def bundles(self) -> int:
        """Number of bundles; 0 for one source, or if 8,192 opens are not needed without them."""
        sources = len(self.sources)
        is_bundled = sources > 1 and sources * self.destinations >= _BUNDLED_OPENS
        return -(-sources // _BUNDLE_FILES) if is_bundled else 0

    def passes(self, folder: Path) -> list[Pass[Any]]:
        """Return the pass that bundles the files in a stage's folder, if there are bundles."""
        return [Bundles(self, folder)] if self.bundles else []

    @contextmanager
    def write(self, output: Output, source: str) -> Iterator[PieceWriter]:
        """Yield the writer of a source's file."""
        with _write(output, self.file(source)) as writer:
            yield writer
        digests = np.array(writer.contents, np.uint64).reshape(-1, self.destinations).sum(axis=0)
        with output.file(self.digests_file(source)) as path:
            path.write_bytes(digests.astype(np.uint64).tobytes())

    def read(self, folder: Path, destination: int) -> Iterator[tuple[int, bytes]]:
        """Yield the pieces for a destination with the indexes of their sources, in their order."""
        if not self.bundles:
            for index, source in enumerate(self.sources):
                with PieceFile(folder, self.file(source)) as file:
                    for piece in self.pieces(file, destination):
                        yield index, piece

        for number in range(self.bundles):
            members = len(self.members(number))
            with PieceFile(folder, self.bundle(number)) as file:
                for member in range(members):
                    piece = file.piece(destination * members + member)
                    yield number * _BUNDLE_FILES + member, piece

    def pieces(self, file: PieceFile, destination: int) -> Iterator[bytes]:
        """Yield the pieces of a source's file for a destination."""
        return map(file.piece, range(destination, len(file), self.destinations))

    def digest(self, folder: Path, known: KnownRecords, destination: int) -> str:
        """Return a digest of the pieces for a destination.

        It does not depend on the order of the sources, nor on sources without a piece for it.

        Raises:
            NotMadeError: a source must run first.
            IntegrityError: a source has pieces for another number of units.
        """

        def add_up() -> list[int]:
            total = np.zeros(self.destinations, np.uint64)
            for source in self.sources:
                record = known.find(folder, self.writer, source)
                file = record.output(folder, self.digests_file(source))
                digests = np.frombuffer(file.buffer(), np.uint64)
                if len(digests) != self.destinations:
                    raise IntegrityError(
                        f"{file.path}: expected the digests of {self.destinations:,} pieces, got "
                        f"{len(digests):,}: remove {folder} and run the same command again"
                    )
                total += digests
            return list(map(int, total))

        return f"{known.once((folder, self.name, 'pieces'), add_up)[destination]:016x}"

    def whole_digest(self, folder: Path, known: KnownRecords) -> str:
        """Return a digest of all files and their order, for units that read them by number."""

        def join() -> str:
            files = (
                known.find(folder, self.writer, source).outputs[self.file(source)]["xxh3_128"]
                for source in self.sources
            )
            return config_digest(list(zip(self.sources, files, strict=True)))

        return known.once((folder, self.name, "files"), join)


@contextmanager
def _write(output: Output, name: str) -> Iterator[PieceWriter]:
    with output.file(name) as path, path.open("wb") as sink:
        writer = PieceWriter(sink, name)
        yield writer
        writer.close()


class Bundles(Pass[Counts]):
    """Bundles the files of 256 units of the previous pass, ordered by destination."""

    def __init__(self, shuffle: Shuffle, folder: Path) -> None:
        self.shuffle = shuffle
        self.folder = folder
        self.name = f"{shuffle.name}-bundles"
        self.units = shuffle.bundles

    def options(self, unit: int) -> Mapping[str, Any]:
        return {"version": _BUNDLES_VERSION, "members": self.shuffle.members(unit)}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        shuffle = self.shuffle
        found = (
            known.find(self.folder, shuffle.writer, source) for source in shuffle.members(unit)
        )
        return {"pieces": config_digest([record.digest() for record in found])}

    def run(self, unit: int, output: Output) -> Counts:
        shuffle = self.shuffle
        with _write(output, shuffle.bundle(unit)) as writer, ExitStack() as stack:
            files = [
                stack.enter_context(PieceFile(output.folder, shuffle.file(member)))
                for member in shuffle.members(unit)
            ]
            for destination in range(shuffle.destinations):
                for file in files:
                    writer.add(shuffle.pieces(file, destination))
        return {}
