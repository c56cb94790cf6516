"""A file that is one document: decompressed within bounds, and decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pipeline.charset import decode
from pipeline.document import FLAG_TRUNCATED_SOURCE
from pipeline.readers import Counted
from pipeline.recipe import Limits
from pipeline.streams import REASONS, Damage, decompress, detect_codec

__all__ = ["WHOLE_FILE_REASONS", "read_whole"]

WHOLE_FILE_REASONS: Final = (*REASONS, "charset", "too_large")


def read_whole(path: Path, limits: Limits, *, meta: bool) -> tuple[str, int, int] | Counted:
    """Text, flags and the file's size in bytes. What a truncated file still gives is kept and flagged."""
    size = path.stat().st_size
    flags, pieces, length = 0, [], 0
    with path.open("rb") as file:
        codec = detect_codec(file.read(16))
        file.seek(0)
        try:
            for piece in decompress(file, codec, limits):
                pieces.append(piece)
                length += len(piece)
                if length > limits.record_bytes:
                    return Counted("malformed", "too_large", size)
        except Damage as damage:
            if damage.reason != "truncated" or not length:
                return Counted("malformed", damage.reason, size)
            flags = FLAG_TRUNCATED_SOURCE
    decoded = decode(b"".join(pieces), meta=meta)
    if decoded is None:
        return Counted("malformed", "charset", size)
    return decoded[0], decoded[1] | flags, size
