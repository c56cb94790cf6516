from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.train.data.stream.permutation import FeistelPermutation, row_permutations


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
