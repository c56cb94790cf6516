"""Connected components of candidate edges, on numpy arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool

Nodes = NDArray[np.int64]


def run_starts(ordered: NDArray[Any]) -> Bool:
    """Return which rows of a sorted array, shape [n], differ from the previous row."""
    starts = np.ones(len(ordered), dtype=bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    return starts


def star_edges(groups: NDArray[Any], nodes: Nodes) -> tuple[Nodes, Nodes]:
    """Return edges from the smallest node of each group to its others: k - 1 edges for k members, not k squared.

    groups [7, 9, 7, 7], nodes [3, 4, 1, 5] -> left [1, 1], right [3, 5]
    """
    order = np.lexsort((nodes, groups))
    starts, members = run_starts(groups[order]), nodes[order]
    centers = members[starts][np.cumsum(starts) - 1]
    others = centers != members
    return centers[others], members[others]


def find_components(count: int, left: Nodes, right: Nodes) -> Nodes:
    """Return the smallest node that each of `count` nodes can reach, shape [count].

    Each round hooks the larger root of every edge under the smallest neighboring root, then jumps pointers to the
    roots; edges inside a component are dropped, so the rounds get cheaper.

    count 5, edges 3-1, 1-4 -> [0, 1, 2, 1, 1]
    """
    labels = np.arange(count, dtype=np.int64)
    while True:
        roots_left, roots_right = labels[left], labels[right]
        apart = roots_left != roots_right
        if not apart.any():
            return labels
        left, right = roots_left[apart], roots_right[apart]
        np.minimum.at(labels, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(jumped := labels[labels], labels):
            labels = jumped
