"""Assign documents to splits and shards, name shards, and choose the rows of a block."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from clozeline.columns import Feature
from clozeline.pipeline.block_options import BlockRows
from clozeline.pipeline.rows import FIXED_COLUMNS
from clozeline.seeding import fraction as keyed_fraction
from clozeline.seeding import order_key

_BLOCK_ROW_CHOICES: Final = (1920, 960, 480, 240, 120, 60)  # choices of `auto`
SHARD_FILES: Final = "shard-"
"""Start of the names of shards, by which a set's other files are told from them."""
_MOST_BLOCK_BYTES: Final = 4 << 20


def is_heldout(uid: bytes, fraction: float, seed: int) -> bool:
    """Return whether a document is held out of training.

    It depends only on the document's uid (16 bytes) and the seed, so it never changes with tasks,
    order or other documents. A document held out at one fraction is held out at every larger one.
    """
    return keyed_fraction(uid, "heldout", seed) < fraction


def shard_of(uid: bytes, shards: int, seed: int) -> int:
    """Return the shard of a document in a set, or in one split of a sample set."""
    return (order_key(uid, "order", seed) * shards) >> 64


def shard_name(shard: int, shards: int, container: str) -> str:
    """Return the file name of a shard: `shard-00003-of-00128.arrow`."""
    return f"{SHARD_FILES}{shard:05d}-of-{shards:05d}.{container}"


def auto_block_rows(row_bytes: float) -> int:
    """Return the largest of 1920, 960, ..., 60 whose block is at most 4 MiB.

    `row_bytes` is the average size of a row.
    """
    return next(
        (rows for rows in _BLOCK_ROW_CHOICES if rows * row_bytes <= _MOST_BLOCK_BYTES),
        _BLOCK_ROW_CHOICES[-1],
    )


def block_rows_of(
    block_rows: BlockRows, features: Iterable[Feature], length: int, id_bytes: int
) -> int:
    """Return the rows of a block.

    `auto` assumes rows of `length` tokens, so only the configuration counts.
    """
    if block_rows != "auto":
        return block_rows
    fixed = sum(
        16 if dtype == "binary16" else np.dtype(dtype).itemsize for dtype in FIXED_COLUMNS.values()
    )
    ids = sum(feature.dtype == "ids" for feature in features)
    return auto_block_rows(fixed + ids * length * id_bytes)


@dataclass(frozen=True)
class Splits:
    """Numbers of training and held-out shards."""

    shards: int
    fraction: float

    @property
    def heldout(self) -> int:
        """Number of held-out shards, 0 where nothing is held out."""
        return max(1, round(self.shards * self.fraction)) if self.fraction > 0 else 0

    def items(self) -> list[tuple[str, int]]:
        """Return the existing splits with their numbers of shards."""
        return [("train", self.shards)] + ([("heldout", self.heldout)] if self.heldout else [])
