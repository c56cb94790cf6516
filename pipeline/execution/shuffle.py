"""Shuffle data: each unit of one pass writes a piece for each unit of a second pass.

If many units write pieces, a pass in between bundles their files: the second pass opens one file
for 256 units. With n units on both sides, that makes 2 n + n² / 256 opens instead of n².

A file of pieces consists of the concatenated pieces, an index of (offset, length, hash), and the
numbers of destinations and of pieces with their hash. Each hash covers the name of the file and the
index of the piece too, so that swapped pieces and files are detected.
"""

import os
import struct
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final, Self, TypeAlias

import numpy as np
import xxhash
from numpy.typing import NDArray

from clozeline.configuration.config import config_digest
from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.execution.stages import Pass, Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import TEMPORARY, Counts, Output, UnitRecord
from clozeline.seeding import hash64, mix, mix_one

# Most files in one bundle; a process opens at most as many files at a time.
_BUNDLE_FILES: Final = 256
_BUNDLE_PIECES: Final = 1 << 23
"""Most pieces of a bundle, whose index then takes 200 MB."""
# Least number of (file, destination) pairs for which files are bundled.
_BUNDLED_OPENS: Final = 8_192
_INDEX_ENTRY: Final = struct.Struct("<QQQ")
_INDEX_END: Final = struct.Struct("<QQQ")
_DIGEST_ROW: Final = np.dtype([("destination", "<u8"), ("content", "<u8")])
"""Hash of the name of a destination, and of what a source sends it."""
_DIGESTS: Final = "digests"
"""Key of the file of a source in the record of its unit, with these rows in base64."""
NOTHING: Final = f"{0:016x}"
"""Digest of no pieces."""
_MODULUS: Final = 1 << 64
_MOST_BYTES: Final = 1 << 26
"""Bytes of digests that are added up at once."""

Bytes: TypeAlias = bytes | memoryview

hash_name = lru_cache(maxsize=1 << 20)(hash64)
"""Hash of the name of a unit: a start asks for each of them many times."""


def _hash(name: str, number: int, parts: Iterable[Bytes]) -> int:
    digest = xxhash.xxh3_64(f"{name}\0{number}\0".encode())
    for part in parts:
        digest.update(part)
    return digest.intdigest()


class PieceWriter:
    """Writes pieces in order to a binary file, which will be named `name` in the stage's folder.

    Without a salt, there are no digests: a state of the hash takes 600 bytes for each destination.
    """

    def __init__(self, sink: BinaryIO, name: str, destinations: int, salt: bytes | None) -> None:
        self._sink = sink
        self._name = name
        self._destinations = destinations
        self._salt = salt
        self._rows = array("Q")
        self._position = 0
        self._contents: dict[int, xxhash.xxh3_64] = {}

    def add(self, parts: Iterable[Bytes]) -> None:
        """Append a piece, given as consecutive parts."""
        chunks = list(parts)
        length = sum(self._sink.write(part) for part in chunks)
        number = self._count
        self._rows.extend((self._position, length, _hash(self._name, number, chunks)))
        self._position += length
        if length and self._salt is not None:
            to = number % self._destinations
            if to not in self._contents:
                self._contents[to] = xxhash.xxh3_64(self._salt)
            for part in chunks:
                self._contents[to].update(part)

    def close(self) -> None:
        """Write the index."""
        count = self._count
        end = _hash(self._name, count, [self._destinations.to_bytes(8, "little")])
        self._sink.write(np.asarray(self._rows, "<u8").data)
        self._sink.write(_INDEX_END.pack(self._destinations, count, end))

    @property
    def _count(self) -> int:
        return len(self._rows) // 3

    def digests(self, keys: NDArray[np.uint64]) -> NDArray[Any]:
        """Return the digests of all pieces for each destination that has any, sorted by key."""
        found = sorted((int(keys[d]), each.intdigest()) for d, each in self._contents.items())
        return np.array(found, _DIGEST_ROW)


class PieceFile:
    """A finished file of pieces, which a `with` block closes.

    `destinations` is their number, if the reader knows it.

    Raises:
        IntegrityError: the file is damaged, is another file with the expected name, or has pieces
            for another number of destinations.
    """

    def __init__(self, folder: Path, name: str, destinations: int | None = None) -> None:
        self._path = folder / name
        self._name = name

        try:
            self._file = self._path.open("rb")
        except OSError as error:
            raise StorageError(
                f"{self._path}: cannot be read ({error.strerror}); delete {folder / TEMPORARY} and "
                "run the stage again, which writes it again"
            ) from error

        end = os.fstat(self._file.fileno()).st_size - _INDEX_END.size
        written, self._count, checked = (
            _INDEX_END.unpack(self._read(_INDEX_END.size, end)) if end >= 0 else (0, 0, 0)
        )
        self._index = end - self._count * _INDEX_ENTRY.size
        if self._index < 0 or checked != _hash(name, self._count, [written.to_bytes(8, "little")]):
            self._file.close()
            raise self._damage_error("its end")
        if destinations not in (None, written):
            self._file.close()
            raise IntegrityError(
                f"{self._path}: expected pieces for {destinations:,} units, got pieces for "
                f"{written:,}: remove {folder} and run the same command again"
            )

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


@dataclass(frozen=True)
class Shuffle:
    """Names and order of the files of a shuffle, for the units that write it.

    A unit of the first pass writes its pieces in the order of their destinations, and may do so
    several times. Its file does not depend on its number.
    """

    name: str
    """name of its folder"""
    sources: tuple[str, ...] = field(compare=False)
    """names of the units of the first pass, in order"""
    destinations: tuple[str, ...]
    """names of the units of the second pass, in order"""
    writer: str
    """name of the first pass"""
    salt: str = ""
    """part of the digest of each piece: options that decide what the second pass makes of it"""

    def file(self, source: str) -> str:
        """Return the name of a source's file, relative to the stage's folder."""
        return f"{TEMPORARY}/{self.name}/{source}.pieces"

    def bundle(self, number: int) -> str:
        """Return the name of a bundle, relative to the stage's folder."""
        return f"{TEMPORARY}/{self.name}-bundles/{number:06d}.pieces"

    def members(self, number: int) -> tuple[str, ...]:
        """Return the sources of a bundle."""
        return self.sources[number * self._bundle_files :][: self._bundle_files]

    @property
    def _bundle_files(self) -> int:
        """Files in a bundle: fewer for many destinations, as its index is in memory."""
        return max(2, min(_BUNDLE_FILES, _BUNDLE_PIECES // len(self.destinations)))

    @property
    def bundles(self) -> int:
        """Number of bundles; 0 for one source, or if 8,192 opens are not needed without them."""
        sources = len(self.sources)
        is_bundled = sources > 1 and sources * len(self.destinations) >= _BUNDLED_OPENS
        return -(-sources // self._bundle_files) if is_bundled else 0

    def passes(self, stage: str) -> list[Pass[Any]]:
        """Return the pass that bundles the files in a stage's folder, if there are bundles."""
        units = {
            f"{number:06d}": Bundle(stage, self, number, config_digest(self.members(number)))
            for number in range(self.bundles)
        }
        return [Pass(f"{self.name}-bundles", units)] if units else []

    @cached_property
    def pieces(self) -> "Pieces":
        """The same shuffle, for the units that read it."""
        return Pieces(self.name, self.writer, self)

    @cached_property
    def _keys(self) -> NDArray[np.uint64]:
        return np.array([hash_name(name) for name in self.destinations], np.uint64)

    @contextmanager
    def write(self, output: Output, source: str) -> Iterator[PieceWriter]:
        """Yield the writer of a source's file."""
        count = len(self.destinations)
        with _write(output, self.file(source), count, self.salt.encode()) as writer:
            yield writer
        digests = writer.digests(self._keys).tobytes()
        output.files[self.file(source)][_DIGESTS] = b64encode(digests).decode()

    def iterate(self, folder: Path, destination: str) -> Iterator[tuple[int, list[bytes]]]:
        """Yield the pieces of each source for a destination, with the index of the source."""
        to = self.destinations.index(destination)
        count = len(self.destinations)
        if not self.bundles:
            for index, source in enumerate(self.sources):
                with PieceFile(folder, self.file(source), count) as file:
                    yield index, [file.piece(number) for number in range(to, len(file), count)]

        for number in range(self.bundles):
            members = len(self.members(number))
            with PieceFile(folder, self.bundle(number), count * members) as file:
                for member in range(members):
                    yield number * self._bundle_files + member, [file.piece(to * members + member)]


@dataclass(frozen=True)
class Pieces:
    """The pieces of a shuffle, for the units that read it.

    What these read is noted, not which sources and other destinations there are.
    """

    name: str
    writer: str
    """name of the first pass"""
    shuffle: Shuffle | None = field(default=None, compare=False)
    """None if the recipe does not have it: then there is no piece"""

    def read(
        self, inputs: UnitInputs, stage: str, destination: str, *, numbered: bool = False
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the pieces for a unit with the indexes of their sources, in the order of these.

        With `numbered`, the unit tells the sources apart; what it does with their indexes must
        follow from its own fields.
        """
        shuffle = self.shuffle
        address = ("numbered" if numbered else "pieces", stage, self.writer, self.name)
        inputs.note("", *address, destination)  # until all have been read
        total = 0
        if shuffle is None:
            inputs.note(NOTHING, *address, destination)
            return
        for index, pieces in shuffle.iterate(inputs.find_folder(stage), destination):
            content = xxhash.xxh3_64(shuffle.salt.encode())
            for piece in pieces:
                content.update(piece)
                yield index, piece
            if any(pieces):
                digest = content.intdigest()
                source = hash_name(shuffle.sources[index])
                total += mix_one(digest ^ source) if numbered else digest
        inputs.note(f"{total % _MODULUS:016x}", *address, destination)


def sum_digests(
    sources: Mapping[str, UnitRecord], name: str, *, numbered: bool
) -> Mapping[int, int]:
    """Return the digest of the pieces for each destination, by the hash of its name.

    It is the sum over the sources, so it depends neither on their order nor on those without a
    piece.
    """
    total = np.empty(0, _DIGEST_ROW)
    sent: dict[str, bytes] = {}
    waiting = 0
    for source, record in sources.items():
        stored = record.outputs[f"{TEMPORARY}/{name}/{source}.pieces"][_DIGESTS]
        sent[source] = b64decode(stored)
        waiting += len(stored)
        if waiting > _MOST_BYTES:
            total = _add_up(total, sent, numbered)
            sent = {}
            waiting = 0
    total = _add_up(total, sent, numbered)
    return dict(zip(total["destination"].tolist(), total["content"].tolist(), strict=True))


def _add_up(before: NDArray[Any], sent: Mapping[str, bytes], numbered: bool) -> NDArray[Any]:
    """Return the sum of the digests for each destination, modulo 2**64."""
    rows = np.frombuffer(bytearray().join(sent.values()), _DIGEST_ROW)
    if numbered:
        names = np.array([hash_name(source) for source in sent], np.uint64)
        counts = [len(digests) // _DIGEST_ROW.itemsize for digests in sent.values()]
        content: NDArray[np.uint64] = rows["content"]
        rows["content"] = mix(content ^ np.repeat(names, counts))
    rows = np.concatenate([before, rows])
    destinations, inverse = np.unique(rows["destination"], return_inverse=True)
    total = np.zeros(len(destinations), _DIGEST_ROW)
    total["destination"] = destinations
    np.add.at(total["content"], inverse, rows["content"])
    return total


@contextmanager
def _write(
    output: Output, name: str, destinations: int, salt: bytes | None = None
) -> Iterator[PieceWriter]:
    with output.file(name) as path, path.open("wb") as sink:
        writer = PieceWriter(sink, name, destinations, salt)
        yield writer
        writer.close()


@dataclass(frozen=True)
class Bundle(Unit[Counts]):
    """Bundles the files of 256 units of the previous pass, ordered by destination."""

    VERSION = 2
    stage: str
    shuffle: Shuffle
    number: int
    names: str
    """digest of the names of the sources"""

    def run(self, inputs: UnitInputs, output: Output) -> Counts:
        shuffle = self.shuffle
        members = shuffle.members(self.number)
        count = len(shuffle.destinations)
        total = count * len(members)
        with (
            _write(output, shuffle.bundle(self.number), total) as writer,
            ExitStack() as stack,
        ):
            files = list[PieceFile]()
            for member in members:
                name = shuffle.file(member)
                inputs.find_files(self.stage, shuffle.writer, member, name)
                files.append(stack.enter_context(PieceFile(output.folder, name, count)))
            for destination in range(count):
                for file in files:
                    writer.add(map(file.piece, range(destination, len(file), count)))
        return {}
