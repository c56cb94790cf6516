"""Connected components of candidate edges, on arrays alone: no recursion, no dictionary of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Nodes = NDArray[np.int64]


def star_edges(groups: NDArray[Any], nodes: Nodes) -> tuple[Nodes, Nodes]:
    """Return edges from the smallest node of each group to its others: k members cost k - 1 edges, not k squared.

    groups [7, 9, 7, 7], nodes [3, 4, 1, 5] -> left [1, 1], right [3, 5]
    """
    order = np.lexsort((nodes, groups))
    ordered, members = groups[order], nodes[order]
    opens = np.ones(len(order), dtype=bool)
    opens[1:] = ordered[1:] != ordered[:-1]
    centres = members[opens][np.cumsum(opens) - 1]
    others = centres != members
    return centres[others], members[others]


def connected_components(count: int, left: Nodes, right: Nodes) -> Nodes:
    """Return the smallest node that each of `count` nodes can reach, shape [count].

    Each round hooks the larger root of every edge under the smallest neighbouring root and then jumps pointers to
    the roots; edges inside a component are dropped, so the rounds get cheaper.

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
        labels = _jump(labels)


def _jump(labels: Nodes) -> Nodes:
    while True:
        jumped = labels[labels]
        if np.array_equal(jumped, labels):
            return labels
        labels = jumped
