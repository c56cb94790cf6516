from __future__ import annotations

import numpy as np
import torch

from pipeline.rows import Ragged
from train.stream.buffer_pool import BufferPool
from train.stream.order import BlockOrder
from train.stream.row_buffer import Lists, RowBuffer, Segment, gather
from train.stream.row_views import BatchRows, Cells, rows_of_cells, rows_of_segments


def test_gather() -> None:
    found = gather(np.array([5, 6, 7, 8]), np.array([2, 0]), np.array([1, 2]))
    assert [found[0].tolist(), found[1].tolist()] == [[7], [5, 6]]


def test_a_small_epoch() -> None:
    order = BlockOrder("set", 10, 4, 1, 2)
    rounds = [order.round_at(position) for position in range(5)]
    assert [(turn.number, turn.length) for turn in rounds] == [(0, 4)] * 4 + [(1, 1)]
    assert order.lane_rows == 5


def placed(widths: list[int], spare: BufferPool) -> RowBuffer:
    """One lane a load, three rows each; row r of load l holds 10 * l + r, as often as `widths` says."""
    arena = RowBuffer(len(widths), 3, ["x"], spare)
    for lane, width in enumerate(widths):
        rows = Ragged.from_lists([[10 * lane + r] * width for r in range(3)], np.uint16)
        order, origin = np.array([2, 0, 1]), np.zeros((3, 3), np.int64)
        arena.place(slice(3 * lane, 3 * lane + 3), {"x": rows}, order, np.ones(3, np.float32), origin)
    arena.finish()
    return arena


def together(segments: list[Segment], batches: int = 1) -> BatchRows:
    """Rows of all lanes, as one or more batches."""
    first, rows = segments[0].row_buffer, sum(segment.stop - segment.start for segment in segments)
    return rows_of_segments(segments, (batches, first.lanes, rows // batches), ["x"], BufferPool(2), {})


def lists(step: BatchRows, rows: int, start: int = 0) -> list[list[int]]:
    column = step.micro_batch(start, start + rows)[0]["x"]
    return [row.tolist() for row in (column[n] for n in range(rows))]


def test_equal_and_odd_loads_give_the_same_rows() -> None:
    """Equally long loads make a matrix, another width makes the column ragged; the rows are the same."""
    equal, odd = placed([2, 2], BufferPool(2)), placed([2, 3], BufferPool(2))
    assert isinstance(equal.column("x"), np.ndarray)
    assert isinstance(odd.column("x"), Lists)
    assert lists(together([Segment(equal, 1, 3)]), 4) == [[0, 0], [1, 1], [10, 10], [11, 11]]
    assert lists(together([Segment(odd, 1, 3)]), 4) == [[0, 0], [1, 1], [10] * 3, [11] * 3]


def test_rounds_are_joined_lane_by_lane() -> None:
    first, second = placed([2, 2], BufferPool(2)), placed([1, 4], BufferPool(2))
    step = together([Segment(first, 2, 3), Segment(second, 0, 1)])
    assert lists(step, 4) == [[1, 1], [2], [11, 11], [12] * 4]


def test_batches_built_together_stay_apart() -> None:
    for arena in (placed([2, 2], BufferPool(2)), placed([2, 5], BufferPool(2))):
        single = [lists(together([Segment(arena, n, n + 1)]), 2) for n in range(3)]
        several = together([Segment(arena, 0, 3)], 3)
        assert [lists(several, 2, start) for start in (0, 2, 4)] == single


def test_matrices_are_used_again() -> None:
    ring = BufferPool(2)

    def place_of(arena: RowBuffer) -> int:
        matrix = arena.column("x")
        assert isinstance(matrix, np.ndarray)
        return matrix.ctypes.data

    first = placed([2, 2], ring)
    view = together([Segment(first, 0, 3)])
    place = place_of(first)
    del first
    assert place_of(placed([2, 2], ring)) != place, "batches still look into the round"
    del view
    assert place in {place_of(arena) for arena in (placed([2, 2], ring), placed([2, 2], ring))}


def test_any_part_of_a_batch_is_copied_out_of_a_round() -> None:
    """Micro-batches of whole lanes, of a part of a lane, and across lanes; never two global batches at once."""
    step = together([Segment(placed([2, 2, 2, 2], BufferPool(2)), 0, 3)])
    rows = lists(step, 12)
    assert step.in_place
    for start in range(12):
        for stop in range(start + 1, 13):
            column = step.micro_batch(start, stop)[0]["x"]
            assert isinstance(column, np.ndarray)
            assert column.dtype == np.int64
            assert column.flags.c_contiguous
            assert column.tolist() == rows[start:stop]


def test_cells_of_several_arenas_are_gathered() -> None:
    """What a mixture does: any slots of any arenas, to any rows; what nobody fills is filler."""
    equal, odd = placed([2, 2], BufferPool(2)), placed([2, 3], BufferPool(2))
    for arenas in ((equal, equal), (equal, odd)):
        cells = [
            Cells(arenas[0], np.array([4, 0]), np.array([2, 0])),
            Cells(arenas[1], np.array([5]), np.array([1])),
        ]
        step = rows_of_cells(cells, 4, ["x"], BufferPool(2), {"x": np.uint16})
        width = 2 if arenas[1] is equal else 3
        assert lists(step, 3) == [[2, 2], [11] * width, [10, 10]]
        assert step.origin[3].tolist() == [-1] * 3
        assert step.weight is not None
        assert step.weight.tolist() == [1, 1, 1, 0]


def test_rows_in_order_of_length() -> None:
    step = together([Segment(placed([3, 1], BufferPool(2)), 0, 2)])
    assert [len(row) for row in lists(step.by_length("x", 4), 4)] == [1, 1, 3, 3]
    assert lists(step.by_length("x", 2), 4) == lists(step, 4)


def test_a_buffer_in_use_is_never_given_again() -> None:
    ring = BufferPool(2)
    first = ring.take((2, 3), np.int64)
    place = first.ctypes.data
    tensor = torch.from_numpy(first[1:])
    del first
    assert ring.take((2, 3), np.int64).ctypes.data != place
    tensor.fill_(7)
    del tensor
    assert place in {ring.take((2, 3), np.int64).ctypes.data for _ in range(2)}
