"""The order of one set against a slow one, its keyed permutations, and its cost in files."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clozeline.train.data.stream.order import BlockOrder, FeistelPermutation, row_permutations
from tests.refusals import refused


def test_an_empty_set_is_refused():
    with refused("no rows"):
        BlockOrder("empty", 0, 4, 1, 1)


def test_every_small_size_is_a_bijection():
    for n in range(1, 301):
        permutation = FeistelPermutation(n, 7)
        images = [permutation(x) for x in range(n)]
        assert sorted(images) == list(range(n))
        assert [permutation.inverse(y) for y in images] == list(range(n))


@given(
    st.integers(1, 2**40),
    st.integers(0, 2**64 - 1),
    st.data(),
)
def test_inverse_of_large_sizes(n, key, data):
    permutation = FeistelPermutation(n, key)
    x = data.draw(st.integers(0, n - 1))
    assert 0 <= permutation(x) < n
    assert permutation.inverse(permutation(x)) == x


def test_orders_are_frozen():
    """These numbers decide the order of every existing run: they may never change."""
    assert [FeistelPermutation(10, 42)(x) for x in range(10)] == [8, 1, 7, 4, 9, 6, 0, 3, 2, 5]
    assert row_permutations(8, np.array([42], np.uint64)).tolist() == [[4, 1, 6, 2, 3, 0, 7, 5]]
