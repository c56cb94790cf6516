"""Tensors of batches of equally long rows: the right numbers, memory of their own, and a bounded number in reserve."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from clozeline.train.data.stream import padding
from clozeline.train.data.stream.padding import FullRows


def assert_whole(taken: tuple[Tensor, Tensor, Tensor], rows: int, width: int) -> None:
    positions, lengths, weight = taken
    assert positions.tolist() == [list(range(width))] * rows
    assert lengths.tolist() == [width] * rows
    assert weight.tolist() == [1.0] * rows
    assert (positions.dtype, lengths.dtype, weight.dtype) == (torch.int64, torch.int64, torch.float32)


@pytest.mark.parametrize("prepared", [0, 1, 70])
def test_writing_into_taken_tensors_reaches_no_others(prepared: int) -> None:
    full = FullRows()
    full.prepare(3, 5, prepared)
    for _ in range(100):
        taken = full.take(3, 5)
        assert_whole(taken, 3, 5)
        for tensor in taken:
            for row in tensor:
                row.fill_(-7)


def test_each_shape_gets_its_own() -> None:
    full = FullRows()
    full.prepare(2, 4, 8)
    for rows, width in [(2, 4), (4, 2), (2, 4), (1, 1), (0, 3)]:
        assert_whole(full.take(rows, width), rows, width)


def test_what_nothing_takes_does_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "_LIMIT", 10)
    full = FullRows()
    for _ in range(50):
        full.prepare(2, 3, 4)
    assert len(full._prepared[1]) == 10


def test_threads_that_share_it_take_different_memory() -> None:
    full = FullRows()

    def use(number: int) -> list[tuple[Tensor, Tensor, Tensor]]:
        full.prepare(2, 3, number % 7)
        return [full.take(2, 3) for _ in range(20)]

    with ThreadPoolExecutor(8) as pool:
        taken = [one for part in pool.map(use, range(40)) for one in part]
    for place in range(3):
        assert len({tensors[place].data_ptr() for tensors in taken}) == len(taken) == 800
    for tensors in taken:
        assert_whole(tensors, 2, 3)
