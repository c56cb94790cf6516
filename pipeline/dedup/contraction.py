"""One level of the search for connected components over ranges: join what a range alone can join, name it, pass it on.

A unit joins the nodes of the groups that it holds and gives each component one of its nodes as label. The nodes of this
level are the groups of the next one, and the labels are its nodes: where a node has two labels, both name the same
component. Nodes of a level get fewer from level to level, because a label is the node of lowest rank, and ranks are
drawn again for each level (Łącki, Mirrokni, Włodarczyk: Connected Components at Scale via Local Contractions,
arXiv 1807.10727).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool, Int64, UInt64
from clozeline.pipeline.dedup.components import connected_components, star_edges
from clozeline.seeding import mix

_STEP: Final = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class Contraction:
    """Distinct nodes of some groups in ascending rank, shape [n], each with the label of its component.

    `rows` has, for each node that was given, its place among the distinct ones; `linked` is false for a node that is
    a component by itself.
    """

    nodes: UInt64
    ranks: UInt64
    labels: UInt64
    linked: Bool
    rows: Int64


def ranks_of(nodes: UInt64, level: int) -> UInt64:
    """Return the ranks of nodes at a level: a bijection of 64-bit words, another one for each level."""
    return mix(nodes ^ np.uint64((level + 1) * _STEP % 2**64))


def contract(groups: NDArray[Any], nodes: UInt64, level: int) -> Contraction:
    """Join nodes that share a group, also through others; the label of a component is its node of lowest rank.

    groups [7, 7, 9, 9, 5], nodes [1, 2, 2, 3, 4] -> {1, 2, 3} and {4}; node 4 is not linked
    """
    ranks, first, rows = np.unique(ranks_of(nodes, level), return_index=True, return_inverse=True)
    components = connected_components(len(ranks), *star_edges(groups, rows))
    distinct = nodes[first]
    linked = np.bincount(components, minlength=len(ranks))[components] > 1
    return Contraction(distinct, ranks, distinct[components], linked, rows)


def look_up(names: UInt64, values: UInt64, wanted: UInt64) -> tuple[UInt64, Bool]:
    """Return the value of each wanted name, or the name itself where it is not among `names`, which are sorted.

    The second array tells which of the wanted names were there.
    """
    if not len(names):
        return wanted, np.zeros(len(wanted), dtype=bool)
    places = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    present = names[places] == wanted
    return np.where(present, values[places], wanted), present
