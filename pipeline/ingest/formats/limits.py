"""Limits on the resources that one input may use."""

from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import config_class


@config_class
class Limits:
    """Limits against hostile or broken input."""

    record_bytes: Annotated[int, Field(ge=1)] = 1 << 26
    """maximum size of a record in bytes, after decompression"""
    text_chars: Annotated[int, Field(ge=1)] = 20_000_000
    """maximum length of a document in characters"""
    ratio: Annotated[int, Field(ge=1)] = 200
    """maximum decompression ratio after the first 64 MiB"""
    decompressed_bytes: Annotated[int, Field(ge=1)] = 1 << 36
    """maximum decompressed size of a file in bytes"""
    line_bytes: Annotated[int, Field(ge=1)] = 1 << 27
    """maximum length of a line in bytes (line-based formats)"""
