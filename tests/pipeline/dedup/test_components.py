from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.dedup.components import find_components, star_edges

NODES = 40
EDGES = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=80)


def slow_labels(edges):
    """Union-find by hand: every node carries its whole set."""
    sets = [{node} for node in range(NODES)]
    for a, b in edges:
        if sets[a] is not sets[b]:
            sets[a] |= sets[b]
            for node in sets[b]:
                sets[node] = sets[a]
    return [min(found) for found in sets]


@given(EDGES, st.randoms(use_true_random=False))
def test_components_equal_union_find_in_any_order_of_edges(edges, rng):
    expected = slow_labels(edges)
    for _ in range(3):
        shuffled = [edge if rng.random() < 0.5 else edge[::-1] for edge in rng.sample(edges, len(edges))]
        left, right = (np.array([edge[side] for edge in shuffled], dtype=np.int64) for side in (0, 1))
        assert find_components(NODES, left, right).tolist() == expected


def test_a_long_path_needs_few_rounds():
    count = 100_000
    order = np.random.PCG64(1).random_raw(count).argsort()
    labels = find_components(count, order[:-1], order[1:])
    assert not labels.any()


def test_star_edges_count_members_not_pairs():
    groups = np.repeat(np.arange(3), [1, 4, 10_000])
    nodes = np.arange(10_005)[::-1].copy()
    left, others = star_edges(groups, nodes)
    assert len(left) == len(others) == 3 + 9_999
    assert set(left.tolist()) == {10_000, 0}
    assert [edge.tolist() for edge in star_edges(np.array([7, 9, 7, 7]), np.array([3, 4, 1, 5]))] == [[1, 1], [3, 5]]
