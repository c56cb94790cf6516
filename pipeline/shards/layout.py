"""File names and block sizes of sample and example shards."""

from collections.abc import Iterable

import numpy as np

from clozeline.pipeline.block_options import BlockRows
from clozeline.pipeline.rows import FIXED_COLUMNS, Feature
from clozeline.pipeline.shards.writer import auto_block_rows


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
