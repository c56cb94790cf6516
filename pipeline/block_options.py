"""Options of sample and example shards: rows of a block, and compression.

They stand apart from `pipeline/shards/`, which imports pyarrow: a recipe is checked without it.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from clozeline.configuration.config import config_class

BlockRows: TypeAlias = Annotated[int, Field(ge=1, le=65536)] | Literal["auto"]
"""Rows of a block, or `auto`: the largest of 1920, 960, ... 60 whose full block takes at most 4 MiB uncompressed."""


@config_class
class Compression:
    """Compression of the buffers of a block."""

    codec: Literal["none", "zstd"] = "zstd"
    """`zstd`, or `none` for fast local disks"""
    level: Annotated[int, Field(ge=1, le=19)] = 3
    """zstd level, 1 to 19"""
