from __future__ import annotations

import re

import numpy as np

from pipeline.tokenizers._chunks import ChunkEncoder


def test_chunks_are_encoded_once_and_long_ones_forgotten():
    asked = []

    def tokens(chunk):
        asked.append(chunk)
        return [len(chunk), 1], [0, len(chunk) - 1]

    encoder = ChunkEncoder(re.compile(r"\S+"), tokens, np.uint16)
    long = "x" * 65
    rows = encoder.encode([f"ab  cde {long}", "", f"ab {long}"])
    assert [row.ids.tolist() for row in rows] == [[2, 1, 3, 1, 65, 1], [], [2, 1, 65, 1]]
    assert asked == ["ab", "cde", long, long]
    assert [row.starts.tolist() for row in rows] == [[0, 1, 4, 6, 8, 72], [], [0, 1, 3, 67]]
    assert asked == ["ab", "cde", long, long, long, long], "offsets, where they are read, ask for long ones again"
