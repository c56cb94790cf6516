"""Options of shards and of stores: rows of a block, compression, and requests.

They stand apart from `pipeline/shards/`, which imports pyarrow: a recipe is checked without it.
"""

from dataclasses import field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from clozeline.configuration.config import config_class

BlockRows: TypeAlias = Annotated[int, Field(ge=1, le=65536)] | Literal["auto"]
"""Rows of a block, or `auto`: the largest of 1920, 960, ... 60 whose full block takes at most 4 MiB
uncompressed."""


@config_class
class Compression:
    """Compression of the buffers of a block."""

    codec: Literal["none", "zstd"] = "zstd"
    """`zstd`, or `none` for fast local disks"""
    level: Annotated[int, Field(ge=1, le=19)] = 3
    """zstd level, 1 to 19"""


@config_class
class StoreOptions:
    """Requests to a store or web server; local files need none."""

    retries: Annotated[int, Field(ge=0)] = 4
    """further tries after a request that failed by a timeout, a closed or cut connection, a short
    answer, or the status 408, 429 or 5xx; a missing file and a denied access are never tried
    again"""
    timeout_s: Annotated[float, Field(gt=0, le=86400)] = 60.0
    """seconds that one request may take, from the first byte sent to the last one received"""
    fsspec: dict[str, Any] = field(default_factory=dict)
    """options of fsspec's file system, such as `endpoint_url` of S3; http takes none"""
