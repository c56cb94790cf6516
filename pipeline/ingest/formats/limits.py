"""Bounds on what one input may cost, whatever it claims of itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Limits:
    """Bounds on hostile or broken input."""

    record_bytes: Annotated[int, Field(ge=1)] = 1 << 26
    """largest record in bytes, after decompression"""
    text_chars: Annotated[int, Field(ge=1)] = 20_000_000
    """longest document in characters"""
    ratio: Annotated[int, Field(ge=1)] = 200
    """largest decompression ratio past 64 MiB"""
    decompressed_bytes: Annotated[int, Field(ge=1)] = 1 << 36
    """largest decompressed size of one file in bytes"""
    line_bytes: Annotated[int, Field(ge=1)] = 1 << 27
    """longest line in bytes (jsonl, lines)"""
