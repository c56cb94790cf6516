"""File names, block sizes and compression of sample and example shards."""

from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.rows import FIXED_COLUMNS, Feature
from clozeline.pipeline.shards.writer import auto_block_rows

BlockRows: TypeAlias = Annotated[int, Field(ge=1, le=65536)] | Literal["auto"]
"""Rows of a block, or `auto`: the largest of 1920, 960, ... 60 whose full block takes at most 4 MiB uncompressed."""


@config_class
class Compression:
    """Compression of the buffers of a block."""

    codec: Literal["none", "zstd"] = "zstd"
    """`zstd`, or `none` for fast local disks"""
    level: Annotated[int, Field(ge=1, le=19)] = 3
    """zstd level, 1 to 19"""


def block_rows_of(block_rows: BlockRows, features: Iterable[Feature], length: int, id_bytes: int) -> int:
    """Return the rows of a block; `auto` counts rows of `length` tokens, so it depends on the configuration alone."""
    if block_rows != "auto":
        return block_rows
    fixed = sum(16 if dtype == "binary16" else np.dtype(dtype).itemsize for dtype in FIXED_COLUMNS.values())
    ids = sum(feature.rank == 1 and feature.dtype == "ids" for feature in features)
    return auto_block_rows(fixed + ids * length * id_bytes)


def shard_name(shard: int, shards: int, container: str) -> str:
    """Return the file name of a shard: `shard-00003-of-00128.arrow`."""
    return f"shard-{shard:05d}-of-{shards:05d}.{container}"
