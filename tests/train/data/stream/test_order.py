from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.train.data.stream.order import (
    BlockOrder,
    FeistelPermutation,
    LogicalBlocks,
    Piece,
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


sizes = st.tuples(st.integers(1, 200), st.integers(1, 24), st.integers(1, 12))


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


@settings(max_examples=150, deadline=None)
@given(sizes)
def test_exactly_once_and_filler_last(shape: tuple[int, int, int]) -> None:
    rows, block_rows, lanes = shape
    order = BlockOrder("set", rows, block_rows, 1, lanes)
    for epoch in range(2):
        lane_cells = dealt(order, epoch, 1)
        cells = Counter(cell for lane in lane_cells for cell in lane)
        filler = cells.pop(None, 0)
        assert filler == order.lane_rows * lanes - rows < lanes
        assert set(cells.values()) == {1}
        assert set(cells) == {divmod(row, block_rows) for row in range(rows)}
        assert [lane.index(None) for lane in lane_cells if None in lane] == [order.lane_rows - 1] * filler
        assert [None in lane for lane in lane_cells] == [False] * (lanes - filler) + [True] * filler


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


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 9), st.lists(st.integers(0, 40), min_size=1, max_size=8))
def test_logical_blocks_tile_the_stored_ones(block_rows: int, shards: list[int]) -> None:
    """Full blocks first, then the tails in order; every stored row in exactly one logical row, and back."""
    stored = block_sizes(shards, block_rows)
    blocks = LogicalBlocks(np.array(stored, np.int64), block_rows)
    full = [(b, r) for b, n in enumerate(stored) if n == block_rows for r in range(n)]
    tails = [(b, r) for b, n in enumerate(stored) if n < block_rows for r in range(n)]
    expected = full + tails
    for logical in range(-(-len(expected) // block_rows)):
        rows = np.arange(min(block_rows, len(expected) - logical * block_rows))
        where = list(zip(*(part.tolist() for part in blocks.locate(logical, rows)), strict=True))
        assert where == expected[logical * block_rows : (logical + 1) * block_rows]
        assert [blocks.to_logical(*place) for place in where] == [(logical, r) for r in range(len(where))]


def test_a_virtual_block_is_made_of_pieces() -> None:
    blocks = LogicalBlocks(np.array([4, 3, 4, 2, 1]), 4)
    assert blocks.pieces(1) == [Piece(2, 0, 4)]
    assert blocks.pieces(2) == [Piece(1, 0, 3), Piece(3, 0, 1)]
    assert blocks.pieces(3) == [Piece(3, 1, 2), Piece(4, 0, 1)]


def test_the_order_depends_on_name_seed_and_sizes() -> None:
    def first(name: str, rows: int, seed: int, lanes: int, epoch: int) -> list[int]:
        order = BlockOrder(name, rows, 1, seed, lanes)
        return [order.block(epoch, x) for x in range(50)]

    base = first("a", 60, 1, 4, 0)
    assert base == first("a", 60, 1, 4, 0)
    others = [first("b", 60, 1, 4, 0), first("a", 61, 1, 4, 0), first("a", 60, 2, 4, 0), first("a", 60, 1, 3, 0)]
    assert base not in [*others, first("a", 60, 1, 4, 1)]


def test_an_empty_set_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no rows"):
        BlockOrder("empty", 0, 4, 1, 1)


def test_a_small_epoch() -> None:
    order = BlockOrder("set", 10, 4, 1, 2)
    rounds = [order.round_at(position) for position in range(5)]
    assert [(turn.number, turn.length) for turn in rounds] == [(0, 4)] * 4 + [(1, 1)]
    assert order.lane_rows == 5


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


@pytest.mark.parametrize("n", [4, 5, 8, 9, 64])
def test_pairs_of_images_are_uniform(n: int) -> None:
    """Images of 0 and 1 over many keys: chi squared within 4 standard deviations of its mean."""
    cells = n * (n - 1)
    draws = max(10_000, 8 * cells)
    seen = Counter()
    for key in range(draws):
        permutation = FeistelPermutation(n, key * 0x9E3779B97F4A7C15 % 2**64)
        seen[permutation(0), permutation(1)] += 1
    assert all(a != b for a, b in seen)
    expected = draws / cells
    chi = sum((count - expected) ** 2 for count in seen.values()) / expected + (cells - len(seen)) * expected
    assert abs(chi - (cells - 1)) < 4 * (2 * (cells - 1)) ** 0.5


def test_no_fixed_stride() -> None:
    permutation = FeistelPermutation(1000, 3)
    steps = Counter((permutation(x + 1) - permutation(x)) % 1000 for x in range(999))
    assert max(steps.values()) < 10


@pytest.mark.parametrize("n", [0, 1, 2, 1920])
def test_row_permutations_are_permutations(n: int) -> None:
    orders = row_permutations(n, np.array([5, 6], np.uint64))
    assert np.array_equal(np.sort(orders, axis=1), [np.arange(n)] * 2)


def test_orders_are_frozen() -> None:
    """These numbers decide the order of every existing run: they may never change."""
    assert [FeistelPermutation(10, 42)(x) for x in range(10)] == FEISTEL
    assert row_permutations(8, np.array([42], np.uint64)).tolist() == [ROWS]


FEISTEL = [8, 1, 7, 4, 9, 6, 0, 3, 2, 5]
ROWS = [4, 1, 6, 2, 3, 0, 7, 5]
