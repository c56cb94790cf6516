from __future__ import annotations

import re

import numpy as np

from clozeline.pipeline.tokenize.tokenizers._chunk_encoder import ChunkEncoder


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


def test_new_short_chunks_of_a_text_are_encoded_together():
    asked = []

    def together(chunks):
        asked.append(sorted(chunks))
        return [([len(chunk)], [0]) for chunk in chunks]

    encoder = ChunkEncoder(re.compile(r"\S+"), lambda chunk: ([len(chunk), 1], [0, 1]), np.uint16, together)
    long = "x" * 65
    rows = encoder.encode([f"ab cde ab {long}", "ab", "cde fghi", ""])
    assert [row.ids.tolist() for row in rows] == [[2, 3, 2, 65, 1], [2], [3, 4], []]
    assert [row.starts.tolist() for row in rows] == [[0, 3, 7, 10, 11], [0], [0, 4], []]
    assert asked == [["ab", "cde"], ["fghi"]], "long ones, which are not kept, are encoded one by one"
