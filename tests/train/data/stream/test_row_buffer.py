from __future__ import annotations

import numpy as np

from clozeline.train.data.stream.buffer_pool import BufferPool
from clozeline.train.data.stream.row_buffer import Lists, RowBuffer, Segment, gather
from tests.train.data.stream.filled_buffers import lists, placed, together


def test_gather() -> None:
    found = gather(np.array([5, 6, 7, 8]), np.array([2, 0]), np.array([1, 2]))
    assert [found[0].tolist(), found[1].tolist()] == [[7], [5, 6]]


def test_equal_and_odd_loads_give_the_same_rows() -> None:
    """Equally long loads make a matrix, another width makes the column ragged; the rows are the same."""
    equal, odd = placed([2, 2], BufferPool(2)), placed([2, 3], BufferPool(2))
    assert isinstance(equal.column("x"), np.ndarray)
    assert isinstance(odd.column("x"), Lists)
    assert lists(together([Segment(equal, 1, 3)]), 4) == [[0, 0], [1, 1], [10, 10], [11, 11]]
    assert lists(together([Segment(odd, 1, 3)]), 4) == [[0, 0], [1, 1], [10] * 3, [11] * 3]


def test_matrices_are_used_again() -> None:
    pool = BufferPool(2)

    def place_of(row_buffer: RowBuffer) -> int:
        matrix = row_buffer.column("x")
        assert isinstance(matrix, np.ndarray)
        return matrix.ctypes.data

    first = placed([2, 2], pool)
    view = together([Segment(first, 0, 3)])
    place = place_of(first)
    del first
    assert place_of(placed([2, 2], pool)) != place, "batches still look into the round"
    del view
    assert place in {place_of(row_buffer) for row_buffer in (placed([2, 2], pool), placed([2, 2], pool))}
