from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.dedup.contraction import contract, look_up, rank_nodes

GROUPS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 40)), max_size=60)


def sets_of(links):
    """Nodes that share a group, joined one group at a time."""
    joined: list[set[int]] = [{node} for node in {node for _, node in links}]
    for group in {group for group, _ in links}:
        members = {node for key, node in links if key == group}
        joined = [one for one in joined if not one & members] + [set().union(*(one for one in joined if one & members))]
    return joined


@given(GROUPS, st.integers(0, 3))
def test_nodes_of_shared_groups_get_one_label_of_lowest_rank(links, level):
    nodes = np.array([node << 32 for _, node in links], np.uint64)
    found = contract(np.array([group for group, _ in links], np.uint64), nodes, level)
    labels = dict(zip(found.nodes.tolist(), found.labels.tolist(), strict=True))
    rank = dict(zip(found.nodes.tolist(), rank_nodes(found.nodes, level).tolist(), strict=True))
    expected = {
        node << 32: min((other << 32 for other in members), key=rank.__getitem__)
        for members in sets_of(links)
        for node in members
    }
    assert labels == expected
    assert found.ranks.tolist() == sorted(rank.values())
    sizes = {node << 32: len(members) for members in sets_of(links) for node in members}
    assert found.linked.tolist() == [sizes[node] > 1 for node in found.nodes.tolist()]
    assert found.nodes[found.rows].tolist() == nodes.tolist()


def test_ranks_of_levels_are_different_orders_of_the_same_nodes():
    nodes = np.arange(1000, dtype=np.uint64)
    orders = [rank_nodes(nodes, level).argsort().tolist() for level in range(3)]
    assert all(sorted(order) == nodes.tolist() for order in orders)
    for first, second in ((0, 1), (1, 2), (0, 2)):
        assert abs(np.corrcoef(orders[first], orders[second])[0, 1]) < 0.15


def test_names_without_a_value_stand_for_themselves():
    names, values = np.array([3, 5], np.uint64), np.array([30, 50], np.uint64)
    found, present = look_up(names, values, np.array([5, 4, 3, 9], np.uint64))
    assert (found.tolist(), present.tolist()) == ([50, 4, 30, 9], [True, False, True, False])
    found, present = look_up(names[:0], values[:0], names)
    assert (found.tolist(), present.tolist()) == ([3, 5], [False, False])
