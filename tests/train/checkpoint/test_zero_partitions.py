"""Shares of parameters that every rank holds; what DeepSpeed's stages hold is tested by resumed runs."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from clozeline.train.checkpoint.format import ParameterRecord, tiling_problem
from clozeline.train.checkpoint.zero_partitions import _share
from clozeline.train.optim.weights.flat_buffers import Segment


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 8))
def test_shares_of_ranks_tile_every_parameter_and_are_equal(sizes: list[int], world: int) -> None:
    whole = [Segment(f"p{n}", (size,), torch.empty(size), "decay", 0, 0, size) for n, size in enumerate(sizes)]
    shares = [list(_share(whole, rank, world)) for rank in range(world)]
    for n, size in enumerate(sizes):
        slices = [
            (rank, piece.start, piece.count) for rank, share in enumerate(shares) for piece in share
            if piece.name == f"p{n}"
        ]  # fmt: skip
        assert tiling_problem(f"p{n}", ParameterRecord([size], "decay", [], slices)) == ""
    counts = [sum(piece.count for piece in share) for share in shares]
    assert max(counts) - min(counts) <= 1
    assert all(piece.offset == piece.start for share in shares for piece in share)
