"""One level of the distributed search for connected components: contract what one range can join and pass it on.

A unit joins the nodes of its groups and labels each component with one of its nodes. The nodes of this level are the
groups of the next, and the labels its nodes: if a node has two labels, both name the same component. Each level has
fewer nodes, because a label is the node of lowest rank and ranks differ per level (Łącki, Mirrokni, Włodarczyk:
Connected Components at Scale via Local Contractions, arXiv 1807.10727).
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool, Int64, UInt64
from clozeline.pipeline.dedup.components import find_components, star_edges
from clozeline.seeding import mix

_STEP: Final = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class Contraction:
    """Distinct nodes in ascending rank, shape [n], each with the label of its component.

    `rows` is the index of each input node among the distinct ones; `linked` is false for a component of one node.
    """

    nodes: UInt64
    ranks: UInt64
    labels: UInt64
    linked: Bool
    rows: Int64


def rank_nodes(nodes: UInt64, level: int) -> UInt64:
    """Return the ranks of nodes at a level: a bijection on 64-bit integers, a different one per level."""
    return mix(nodes ^ np.uint64((level + 1) * _STEP % 2**64))


def contract(groups: NDArray[Any], nodes: UInt64, level: int) -> Contraction:
    """Join nodes that share a group, transitively; the label of a component is its node of lowest rank.

    groups [7, 7, 9, 9, 5], nodes [1, 2, 2, 3, 4] -> {1, 2, 3} and {4}; node 4 is not linked
    """
    ranks, first, rows = np.unique(rank_nodes(nodes, level), return_index=True, return_inverse=True)
    components = find_components(len(ranks), *star_edges(groups, rows))
    distinct = nodes[first]
    linked = np.bincount(components, minlength=len(ranks))[components] > 1
    return Contraction(distinct, ranks, distinct[components], linked, rows)


def locate_keys(keys: NDArray[Any], queries: NDArray[Any]) -> tuple[Int64, Bool]:
    """Return an index into the sorted `keys` for each query, and whether the key there equals the query."""
    if not len(keys):
        return np.zeros(len(queries), dtype=np.int64), np.zeros(len(queries), dtype=bool)
    index = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return index, keys[index] == queries


def look_up(keys: UInt64, values: UInt64, queries: UInt64) -> tuple[UInt64, Bool]:
    """Return the value of each query, or the query itself if the sorted `keys` lack it, and which are present."""
    index, present = locate_keys(keys, queries)
    return (np.where(present, values[index], queries) if len(keys) else queries), present
