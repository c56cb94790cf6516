"""The order of one set against a slow one, its keyed permutations, and its cost in files."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.train.data.stream.order import (
    BlockOrder,
    FeistelPermutation,
    LogicalBlocks,
    row_permutations,
)
from tests.train.data.stream.slow_order import SlowSet, row_at

Cell = tuple[int, int] | None


def block_sizes(shards: list[int], block_rows: int) -> list[int]:
    """Rows of every stored block of shards with these numbers of rows."""
    return [min(block_rows, rows - start) for rows in shards for start in range(0, rows, block_rows)]


def dealt(order: BlockOrder, epoch: int, ranks: int) -> list[list[Cell]]:
    """An epoch from the loads of each rank: by lane and lane row (logical block, row in it), None for filler."""
    lanes: list[list[Cell]] = [[] for _ in range(order.lanes)]
    own = order.lanes // ranks
    for rank in range(ranks):
        position = epoch * order.lane_rows
        while position < (epoch + 1) * order.lane_rows:
            turn = order.round_at(position)
            assert (turn.epoch, turn.start) == (epoch, position)
            cells: list[Cell] = [None] * (own * turn.length)
            for load in order.loads(turn, rank * own, rank * own + own):
                rows = order.row_order(epoch, load.block)[load.rows].tolist()
                slots = np.arange(len(cells))[load.slots].tolist()
                for slot, row in zip(slots, rows, strict=True):
                    assert cells[slot] is None
                    cells[slot] = (load.block, row)
            for lane in range(own):
                lanes[rank * own + lane] += cells[lane * turn.length : (lane + 1) * turn.length]
            position += turn.length
    return lanes


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=6).filter(any),
    st.integers(1, 24),
    st.integers(1, 12),
    st.integers(0, 3),
    st.data(),
)
def test_order_equals_the_slow_one(
    shards: list[int], block_rows: int, lanes: int, epoch: int, data: st.DataObject
) -> None:
    """Loads and their inverse, for shards of any sizes and lanes of any ranks."""
    slow = SlowSet("set", tuple(shards), block_rows)
    order = BlockOrder("set", sum(shards), block_rows, 5, lanes)
    blocks = LogicalBlocks(np.array(block_sizes(shards, block_rows)), block_rows)
    ranks = data.draw(st.sampled_from([n for n in range(1, lanes + 1) if lanes % n == 0]))
    for lane, cells in enumerate(dealt(order, epoch, ranks)):
        assert len(cells) == order.lane_rows == -(-sum(shards) // lanes)
        for position, cell in enumerate(cells, epoch * order.lane_rows):
            expected = row_at(slow, 5, lanes, lane, position)
            if expected is None:
                assert cell is None
                continue
            assert cell is not None
            logical, row = cell
            block, stored = blocks.locate(logical, np.array([row]))
            assert (epoch, int(block[0]), int(stored[0])) == expected
            assert order.where(*blocks.to_logical(*expected[1:]), epoch) == (lane, position)


@pytest.mark.parametrize(("rows", "block_rows", "lanes"), [(1000, 16, 8), (2047, 16, 8), (63, 16, 8), (7, 16, 8)])
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_last_round_reads_few_blocks(rows: int, block_rows: int, lanes: int, ranks: int) -> None:
    order = BlockOrder("set", rows, block_rows, 1, lanes)
    turn = order.round_at(order.lane_rows - 1)
    left = order.blocks % lanes
    for rank in range(ranks):
        own = lanes // ranks
        loads = list(order.loads(turn, rank * own, rank * own + own))
        assert len({load.block for load in loads}) == len(loads) <= -(-(left + 1) // ranks) + 2


def test_an_empty_set_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no rows"):
        BlockOrder("empty", 0, 4, 1, 1)


def test_every_small_size_is_a_bijection() -> None:
    for n in range(1, 301):
        permutation = FeistelPermutation(n, 7)
        images = [permutation(x) for x in range(n)]
        assert sorted(images) == list(range(n))
        assert [permutation.inverse(y) for y in images] == list(range(n))


@given(st.integers(1, 2**40), st.integers(0, 2**64 - 1), st.data())
def test_inverse_of_large_sizes(n: int, key: int, data: st.DataObject) -> None:
    permutation = FeistelPermutation(n, key)
    x = data.draw(st.integers(0, n - 1))
    assert 0 <= permutation(x) < n
    assert permutation.inverse(permutation(x)) == x


def test_orders_are_frozen() -> None:
    """These numbers decide the order of every existing run: they may never change."""
    assert [FeistelPermutation(10, 42)(x) for x in range(10)] == FEISTEL
    assert row_permutations(8, np.array([42], np.uint64)).tolist() == [ROWS]


FEISTEL = [8, 1, 7, 4, 9, 6, 0, 3, 2, 5]
ROWS = [4, 1, 6, 2, 3, 0, 7, 5]
