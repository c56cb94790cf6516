from __future__ import annotations

import re

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers

from clozeline.pipeline.tokenize.tokenizers._chunk_encoder import ChunkEncoder


class Counting:
    """A library that remembers what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.library = Tokenizer(models.BPE({"a": 1, "b": 2, "ab": 3}, [("a", "b")]))
        self.library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()

    def encode_batch(self, chunks, **options):
        self.asked += sorted(chunks)
        return self.library.encode_batch(chunks, **options)


def test_chunks_are_encoded_once_and_long_ones_forgotten() -> None:
    library, long = Counting(), "ab" * 33
    encoder = ChunkEncoder(library, re.compile(r"\S+"), np.uint16)
    rows = encoder.encode([f"ab  ba {long} ab", "", f"ab {long}", "ba a"])
    assert [row.ids.tolist() for row in rows] == [[3, 2, 1, *[3] * 33, 3], [], [3, *[3] * 33], [2, 1, 1]]
    assert library.asked == ["ab", long, "ba", long, "a"]
    assert [row.starts.tolist() for row in rows[2:]] == [[0, *range(3, 69, 2)], [0, 1, 3]]
    assert library.asked[5:] == [long], "offsets, where they are read, ask for long ones again"
