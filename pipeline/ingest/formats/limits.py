"""Limits on the resources that one input may use."""

from typing import Annotated, Final

from pydantic import Field

from clozeline.configuration.config import Positive, config_class

LARGEST_WINDOW: Final = 1 << 32
"""Bytes of the largest dictionary of xz; zstandard decodes windows up to half of it."""


@config_class
class InputLimits:
    """Limits against hostile or broken input."""

    record_bytes: Positive = 1 << 26
    """maximum size of a record in bytes, after decompression; larger files of one document are
    refused before a run"""
    text_chars: Positive = 20_000_000
    """maximum length of a document in characters; a worker takes about 20 bytes of memory for each,
    and up to 110 if the filters judge a text of so many words"""
    ratio: Positive = 200
    """maximum decompression ratio after the first 64 MiB"""
    decompressed_bytes: Positive = 1 << 36
    """maximum decompressed size of a file in bytes, or of the range of a file that a unit reads"""
    window_bytes: Annotated[int, Field(ge=1 << 16, le=LARGEST_WINDOW)] | None = None
    """largest window of a `.zst` frame (2**31 for `zstd --long=31`) or dictionary of an `.xz` file,
    in bytes of memory; default: half of the memory, divided among the workers"""
    line_bytes: Positive = 1 << 27
    """maximum length of a line in bytes (line-based formats)"""
