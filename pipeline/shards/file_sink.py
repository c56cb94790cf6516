"""Hash and count the bytes of a shard while it is written."""

import hashlib
from typing import BinaryIO


class HashedFile:
    """A binary file for writing, with position, SHA-256, and a copy of the latest bytes on demand."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._kept: list[bytes] | None = None
        self.position = 0
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        raw = bytes(data)
        self._file.write(raw)
        self._hash.update(raw)
        if self._kept is not None:
            self._kept.append(raw)
        self.position += len(raw)
        return len(raw)

    def keep(self) -> None:
        """Start a copy of what is written from here on."""
        self._kept = []

    def take_copy(self) -> bytes:
        """Return the copy and end it."""
        copy, self._kept = b"".join(self._kept or ()), None
        return copy

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def tell(self) -> int:
        return self.position

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        # the file itself belongs to its opener
        self.closed = True
