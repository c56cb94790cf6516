"""Errors of shard sets and stores: what was expected, what was found, in which file and block."""

from __future__ import annotations

from pathlib import Path

from clozeline.errors import IntegrityError, StorageError
from clozeline.repair import repair_of


class ManifestError(IntegrityError):
    """A manifest or its index is not what this version reads, or contradicts the files next to it."""


class DamagedBlock(IntegrityError):
    """The bytes of one block are not the ones that its index entry names, or do not hold what the manifest says.

    Args:
        shard: path of the shard file.
        block: number of the block inside that file.
        expected: what the index or the manifest says.
        got: what was found.
    """

    def __init__(self, shard: Path | str, block: int, expected: str, got: str) -> None:
        super().__init__(f"{shard}: block {block}: expected {expected}, got {got}; {repair_of(shard)}")
        self.shard = str(shard)
        self.block = block
        self.expected = expected
        self.got = got

    def __reduce__(self) -> tuple[type[DamagedBlock], tuple[str, int, str, str]]:
        return (DamagedBlock, (self.shard, self.block, self.expected, self.got))


class ObjectMissingError(StorageError):
    """The object of a store does not exist, or there is no right to see it."""


class ObjectTooShortError(StorageError):
    """An object of a store ends before the range that was asked for."""


class StrayAnswerError(StorageError):
    """More than the range came: proxies send that now and then, and some servers at every request."""
