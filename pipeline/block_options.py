"""Options of shards and stores: rows per block, compression, and requests.

They are not in `pipeline/shards/`, which imports pyarrow: checking a recipe does not need it.
"""

from dataclasses import field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from clozeline.configuration.config import Natural, config_class

BlockRows: TypeAlias = Annotated[int, Field(ge=1, le=65536)] | Literal["auto"]
"""Rows per block, or `auto`: the largest of 1920, 960, ... 60 for which a block takes at most 4 MiB
uncompressed."""

Container: TypeAlias = Literal["arrow", "tar"]
"""Arrow IPC files, or WebDataset tars of the same blocks."""
Codec: TypeAlias = Literal["none", "zstd"]
"""Codec of the buffers of a block; one that files of Arrow IPC know needs only a word here."""


@config_class
class Compression:
    """Compression of the buffers of a block."""

    codec: Codec = "zstd"
    """`zstd`, or `none` for fast local disks"""
    level: Annotated[int, Field(ge=1, le=19)] = 3
    """zstd level, 1 to 19"""


@config_class
class StoreOptions:
    """Requests to a store or web server; local files need no requests."""

    retries: Natural = 4
    """retries after a timeout, a broken connection, a short answer, or the status 408, 429 or 5xx;
    a missing file or denied access is not retried"""
    timeout_s: Annotated[float, Field(gt=0, le=86400)] = 60.0
    """longest time of a request in seconds, from the first byte sent to the last byte received"""
    fsspec: dict[str, Any] = field(default_factory=dict)
    """options of fsspec's file system, such as `endpoint_url` of S3; http has no options"""
