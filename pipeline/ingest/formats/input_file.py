"""The interface of input files that readers use: a `Path`, or a file of a store that looks like one."""

import mmap
from pathlib import Path
from typing import BinaryIO, Final, Literal, Protocol

_CHUNK: Final = 1 << 20


class FileFacts(Protocol):
    """Facts of a file."""

    @property
    def st_size(self) -> int:
        """Bytes of the file."""


class InputFile(Protocol):
    """A file that can be read from any position."""

    @property
    def name(self) -> str:
        """Name without the folder."""

    @property
    def suffix(self) -> str:
        """Last suffix of the name, with its dot."""

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Open the file."""

    def stat(self) -> FileFacts:
        """Return the facts of the file."""


class FileBytes:
    """The bytes of a file that cannot be mapped into memory, with the methods of `mmap` that readers use."""

    def __init__(self, path: InputFile) -> None:
        self._file, self._size = path.open("rb"), path.stat().st_size
        self.seek, self.read = self._file.seek, self._file.read

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._size)
        self._file.seek(start)
        return self._file.read(max(0, stop - start))

    def find(self, wanted: bytes, start: int, end: int) -> int:
        """Return the offset of the first match that lies within [start, end); -1 if there is none."""
        end = min(end, self._size)
        while start < end:
            chunk = self[start : min(end, start + _CHUNK)]
            if (at := chunk.find(wanted)) != -1:
                return start + at
            if start + len(chunk) >= end:
                return -1
            start += len(chunk) - len(wanted) + 1
        return -1


def map_bytes(path: InputFile) -> mmap.mmap | FileBytes:
    """Return the bytes of a file, which is not empty, without reading them."""
    if not isinstance(path, Path):
        return FileBytes(path)
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
