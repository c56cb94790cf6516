"""Errors of shard sets and stores, which name what was expected, what was found, file and block."""

from __future__ import annotations

from pathlib import Path

from clozeline.errors import IntegrityError, StorageError
from clozeline.repair import repair_of


class ManifestError(IntegrityError):
    """A manifest or its index is not what this version reads, or contradicts the files next to it."""


class DamagedBlock(IntegrityError):
    """The bytes of a block contradict its index entry or the manifest; `block` is its number in the file `shard`."""

    def __init__(self, shard: Path | str, block: int, expected: str, got: str) -> None:
        super().__init__(f"{shard}: block {block}: expected {expected}, got {got}; {repair_of(shard)}")
        self.shard = str(shard)
        self.block = block
        self.expected = expected
        self.got = got

    def __reduce__(self) -> tuple[type[DamagedBlock], tuple[str, int, str, str]]:
        return (DamagedBlock, (self.shard, self.block, self.expected, self.got))


class ObjectMissingError(StorageError):
    """The object does not exist."""


class ObjectRefusedError(StorageError):
    """The store refuses a request, such as for lack of rights."""


class ObjectTooShortError(StorageError):
    """An object ends before the requested range."""


class StrayAnswerError(StorageError):
    """The response has more than the requested range, as some proxies and servers send."""
