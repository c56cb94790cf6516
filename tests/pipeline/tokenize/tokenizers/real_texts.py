"""Texts of every real file that the folder of `CLOZELINE_DATA` holds, in pieces."""

import os
from pathlib import Path

import zstandard

DATA = "CLOZELINE_DATA"
PIECE = 2000


def all_texts(limit):
    """Up to `limit` characters of each compressed file, whatever its kind: its bytes are text all the same."""
    texts = []
    for path in sorted(Path(os.environ[DATA]).rglob("*.zst")):
        if path.parent.name == "hf" or ".tar" in path.name:
            continue
        with path.open("rb") as file:
            raw = zstandard.ZstdDecompressor().stream_reader(file).read(4 * limit).decode(errors="ignore")[:limit]
        texts += [raw[start : start + PIECE] for start in range(0, len(raw), PIECE)]
    return texts
