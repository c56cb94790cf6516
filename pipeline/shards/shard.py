"""Metadata of one written shard; a final pass merges the metadata of all tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clozeline.errors import IntegrityError
from clozeline.sealed_json import seal, unseal


@dataclass(frozen=True, slots=True)
class Block:
    """Index entry of one block: byte range in its shard, rows, and xxh3-128 of the stored bytes (16 bytes)."""

    offset: int
    length: int
    rows: int
    xxh3: bytes


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """One shard file."""

    path: str  # file name, relative to the manifest
    bytes: int  # size of the file
    sha256: str  # hex digest of the file
    rows: int  # rows in all blocks
    blocks: tuple[Block, ...]  # in order
    tokens: int  # values of the first column that holds token ids
    longest: int  # most token ids in one row of any column
    largest_block: int  # bytes of the largest block after decompression

    def to_json(self) -> dict[str, Any]:
        """Return plain data with a checksum; blocks as [offset, length, rows, hex digest]."""
        record = {name: getattr(self, name) for name in self.__dataclass_fields__}
        record["blocks"] = [[block.offset, block.length, block.rows, block.xxh3.hex()] for block in self.blocks]
        return seal(record)

    @staticmethod
    def from_json(record: Mapping[str, Any], where: Path | str = "the record of a shard") -> ShardInfo:
        """Return the shard that `to_json` described; `where` is its file, for messages."""
        try:
            facts = unseal(record, where)
            blocks = tuple(Block(at, size, rows, bytes.fromhex(digest)) for at, size, rows, digest in facts["blocks"])
            return ShardInfo(**{**facts, "blocks": blocks})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise IntegrityError(f"not the record of a shard ({error}): {str(record)[:200]}") from error
