"""Owners of matrices that are cut; what travels between ranks is tested by test_every_stage."""

from __future__ import annotations

import pytest
import torch

from clozeline.train.optim.optimizers import _matrices
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
    (found,) = map_matrices(layout, [matrix], [matrix.clone().view(-1)], lambda stack: stack.flip(1, 2))
    assert torch.equal(found.view(2, 3), matrix.flip(0, 1))


def test_stacks_hold_matrices_of_one_shape_and_bounded_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_matrices, "STACKED_BYTES", 4 * 6 * 2 + 5)
    matrices = [torch.full((2, 3) if index % 2 else (6, 7), float(index)) for index in range(10)]
    seen: list[tuple[int, ...]] = []

    def double(stack: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(stack.shape))
        return 2 * stack

    found = map_matrices(local_layout([{"params": matrices}]), matrices, [one.view(-1) for one in matrices], double)
    assert seen == [(1, 6, 7)] * 5 + [(2, 2, 3), (2, 2, 3), (1, 2, 3)]
    assert all(map(torch.equal, found, [2 * matrix.view(-1) for matrix in matrices]))
