"""Owners of matrices that are cut; what travels between ranks is tested by test_every_stage."""

from __future__ import annotations

import torch

from clozeline.train.optim.optimizers._matrices import map_matrices, owners
from clozeline.train.optim.weights.flat_buffers import Segment, local_layout


def held(**counts: int) -> list[Segment]:
    return [Segment(name, (4, 4), torch.empty(0), "matrix", 0, 0, count) for name, count in counts.items()]


def test_the_rank_with_most_of_a_matrix_computes_it() -> None:
    assert owners([held(a=16, b=5), held(b=11)]) == {"a": 0, "b": 1}


def test_halves_go_to_the_rank_that_has_less_to_do() -> None:
    """A whole matrix counts before those that are cut, whatever their names; then the first rank, then the other."""
    assert owners([held(a=8, b=8, z=16), held(a=8, b=8)]) == {"z": 0, "a": 1, "b": 0}


def test_each_matrix_of_a_flat_is_mapped_by_itself() -> None:
    matrix = torch.arange(6.0).view(2, 3)
    layout = local_layout([{"params": [matrix]}])
    assert torch.equal(map_matrices(layout, matrix, matrix.clone(), lambda one: one.flip(0, 1)), matrix.flip(0, 1))
