"""Components by rounds of stars equal those of scipy, whatever the graph and the ranges."""

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from clozeline.pipeline.dedup.components import (
    connect_nodes,
    contract_edges,
    read_edges,
    send_stars,
)
from clozeline.pipeline.dedup.parts import name_range
from clozeline.pipeline.execution.shuffle import Shuffle
from clozeline.pipeline.execution.unit_record import Output
from tests.pipeline.stage_in_memory import run_passes


def smallest_reached(count, left, right):
    """Return the smallest node that each node reaches."""
    graph = coo_array((np.ones(len(left), bool), (left, right)), (count, count))
    labels = connected_components(graph, directed=False)[1]
    smallest = np.full(count, count)
    np.minimum.at(smallest, labels, np.arange(count))
    return smallest[labels]


def connect(folder, left, right, ranges):
    """Send every edge from a unit of its own choice; return labels of nodes, and the passes."""
    names = tuple(name_range(number, ranges) for number in range(ranges))
    edges = Shuffle("edges", names, ranges, "drawn")
    for number, source in enumerate(names):
        some = slice(number, None, ranges)
        send_stars(Output(folder), edges, source, left[some], right[some])

    passes = list[str]()
    stars = None

    def until_stars():
        nonlocal stars
        stars = yield from connect_nodes(folder, edges)

    run_passes(folder, until_stars(), note=passes.append)
    held = np.concatenate([read_edges(folder, stars, unit) for unit in range(ranges)])
    return held["node"], held["other"], passes


def check_stars(folder, count, left, right, ranges):
    """Compare each leaf with its center, and the rounds with the logarithm of the nodes."""
    expected = smallest_reached(count, left, right)
    nodes, others, passes = connect(folder, left.astype(np.uint64), right.astype(np.uint64), ranges)
    is_leaf = nodes > others

    assert sorted(zip(nodes[is_leaf].tolist(), others[is_leaf].tolist(), strict=True)) == [
        (node, center) for node, center in enumerate(expected.tolist()) if node != center
    ]
    # each edge is in the ranges of both ends
    assert (
        sorted(others[~is_leaf].tolist()) == np.flatnonzero(expected != np.arange(count)).tolist()
    )
    assert len(passes) <= 1 + 2 * np.ceil(np.log2(max(count, 2)))
    return passes


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs(tmp_path, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr("clozeline.pipeline.dedup.parts.BATCH_BYTES", int(rng.integers(1, 4000)))
    count = int(rng.integers(1, 300))
    edges = int(rng.integers(0, 2 * count))
    left, right = rng.integers(0, count, (2, edges))
    check_stars(tmp_path, count, left, right, int(rng.integers(1, 12)))


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_chain_of_a_hundred_thousand(tmp_path, shuffled):
    count = 100_000
    order = np.random.default_rng(1).permutation(count) if shuffled else np.arange(count)
    check_stars(tmp_path, count, order[:-1], order[1:], 16)


@pytest.mark.parametrize("center", [0, 500_000, 999_999])
def test_a_star_of_a_million(tmp_path, center):
    leaves = np.delete(np.arange(1_000_000), center)
    passes = check_stars(tmp_path, 1_000_000, np.full(999_999, center), leaves, 8)

    assert len(passes) <= 5


def test_a_unit_contracts_its_own_edges():
    leaves, centers = contract_edges(np.array([9, 7, 4], np.uint64), np.array([7, 5, 8], np.uint64))

    assert leaves.tolist() == [7, 8, 9]
    assert centers.tolist() == [5, 4, 5]
