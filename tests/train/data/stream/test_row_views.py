from __future__ import annotations

import numpy as np

from clozeline.train.data.stream.buffer_pool import BufferPool
from clozeline.train.data.stream.row_buffer import Lists, Segment
from clozeline.train.data.stream.row_views import BatchRows, Cells, rows_of_cells
from tests.train.data.stream.filled_buffers import lists, placed, together


def test_rounds_are_joined_lane_by_lane() -> None:
    first, second = placed([2, 2], BufferPool(2)), placed([1, 4], BufferPool(2))
    portion = together([Segment(first, 2, 3), Segment(second, 0, 1)])
    assert lists(portion, 4) == [[1, 1], [2], [11, 11], [12] * 4]


def test_batches_built_together_stay_apart() -> None:
    for row_buffer in (placed([2, 2], BufferPool(2)), placed([2, 5], BufferPool(2))):
        single = [lists(together([Segment(row_buffer, n, n + 1)]), 2) for n in range(3)]
        several = together([Segment(row_buffer, 0, 3)], 3)
        assert [lists(several, 2, start) for start in (0, 2, 4)] == single


def test_any_part_of_a_batch_is_copied_out_of_a_round() -> None:
    """Micro-batches of whole lanes, of a part of a lane, and across lanes; never two global batches at once."""
    portion = together([Segment(placed([2, 2, 2, 2], BufferPool(2)), 0, 3)])
    rows = lists(portion, 12)
    assert portion.is_view
    for start in range(12):
        for stop in range(start + 1, 13):
            column = portion.micro_batch(start, stop)[0]["x"]
            assert isinstance(column, np.ndarray)
            assert column.dtype == np.int64
            assert column.flags.c_contiguous
            assert column.tolist() == rows[start:stop]


def test_cells_of_several_row_buffers_are_gathered() -> None:
    """Access of a mixture: any slots of any row buffers, to any rows; an unfilled row is filler."""
    equal, odd = placed([2, 2], BufferPool(2)), placed([2, 3], BufferPool(2))
    for buffers in ((equal, equal), (equal, odd)):
        cells = [
            Cells(buffers[0], np.array([4, 0]), np.array([2, 0])),
            Cells(buffers[1], np.array([5]), np.array([1])),
        ]
        portion = rows_of_cells(cells, 4, ["x"], BufferPool(2), {"x": np.uint16})
        width = 2 if buffers[1] is equal else 3
        assert lists(portion, 3) == [[2, 2], [11] * width, [10, 10]]
        assert portion.origin[3].tolist() == [-1] * 3
        assert portion.weight is not None
        assert portion.weight.tolist() == [1, 1, 1, 0]


def test_rows_in_order_of_length() -> None:
    portion = together([Segment(placed([3, 1], BufferPool(2)), 0, 2)])
    assert [len(row) for row in lists(portion.by_length("x", 4), 4)] == [1, 1, 3, 3]
    assert lists(portion.by_length("x", 2), 4) == lists(portion, 4)


def test_all_columns_follow_the_order_of_length() -> None:
    """Lists, a matrix of its own and a view of a round are sorted together, with weight and origin."""
    ragged = Lists(np.arange(5), np.array([0, 3]), np.array([3, 2]))
    view = together([Segment(placed([2, 2], BufferPool(2)), 0, 1)]).columns["x"]
    origin = np.array([[0, 0, 7], [0, 0, 8]])
    given = {"x": ragged, "matrix": np.array([[1], [2]]), "view": view}
    portion = BatchRows(given, np.array([1, 0], np.float32), origin)
    columns, weight, origins = portion.by_length("x", 2).micro_batch(0, 2)
    found = {name: [list(column[n]) for n in range(2)] for name, column in columns.items()}
    assert found == {"x": [[3, 4], [0, 1, 2]], "matrix": [[2], [1]], "view": [[12, 12], [2, 2]]}
    assert weight is not None
    assert weight.tolist() == [0, 1]
    assert origins.tolist() == [[0, 0, 8], [0, 0, 7]]
