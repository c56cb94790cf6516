"""The interface of input files that readers use: a `Path`, or a file of a store that looks like one."""

from typing import BinaryIO, Final, Literal, Protocol

_CHUNK: Final = 1 << 20
_READ_AHEAD: Final = 1 << 17  # many small slices follow one another


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
    """The bytes of a file, by offset, with the methods of `mmap` that readers use; closed with its last reference.

    A mapping would count all that was read of it as memory of the process, and end the process by SIGBUS if the file
    becomes shorter.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self._window, self._window_start = b"", 0  # the bytes last read
        self.seek, self.read = self._file.seek, self._file.read

    def __del__(self) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._size)
        if start < self._window_start or stop > self._window_start + len(self._window):
            self._file.seek(start)
            self._window, self._window_start = self._file.read(max(_READ_AHEAD, stop - start)), start
        return self._window[start - self._window_start : max(start, stop) - self._window_start]

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
