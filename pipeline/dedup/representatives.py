"""Representatives of components of documents that share band keys, and what each replaces."""

from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64, UInt64
from clozeline.pipeline.dedup.components import Components
from clozeline.pipeline.dedup.parts import (
    COMPARED_PRIORITY,
    Uids,
    choose_kept,
    find_group_starts,
)

MOST_ROUNDS: Final = 32
"""Maximum rounds of splitting components; documents that are still pending after them are kept,
so that the time is linear."""

_PAIR_BLOCK: Final = 1 << 16  # pairs of sketches compared at once

Node = TypeVar("Node", np.int64, np.uint64)
"""Number of a document."""


def choose_representatives(
    groups: NDArray[Any],
    nodes: Int64,
    uids: Uids,
    priority: Int64,
    sketches: NDArray[np.uint16],
    verify: float,
) -> tuple[Int64, NDArray[np.float32]]:
    """Return the kept row for each of n documents, and the similarity to that row.

    The row of a kept document is itself. The result depends on the set of documents, not their
    order.

    The representative of a component is the document of highest priority (ties: smallest uid).
    Members less similar to it than `verify` leave, form new components by the band keys they share,
    and so on. This breaks chains: of A ~ B ~ C where A and C differ, C is not dropped for A. With
    `verify` 0, no component is split.

    `groups` [m] identify band keys, equal ones next to each other; `nodes` [m] are the rows with
    each key, below n. Uids of 16 bytes [n], priorities [n] and sketches [n, functions] have a row
    per document.
    """
    kept = np.arange(len(uids), dtype=np.int64)
    similarity = np.ones(len(uids), dtype=np.float32)

    for _ in range(MOST_ROUNDS):
        # components of the pending documents, and the representative of each
        left, right = star_edges(groups, nodes)
        if not len(left):
            break

        pending = np.zeros(len(uids), dtype=bool)
        pending[left] = pending[right] = True
        active = np.flatnonzero(pending)
        numbers = np.cumsum(pending, dtype=np.uint64)
        components = Components(len(active))
        components.join(numbers[left], numbers[right])
        representatives = active[choose_kept(components.roots(), priority[active], uids[active])]

        # members close enough to their representative are decided; the others stay pending, and a
        # compared document until it is a representative itself
        similarities = estimate_similarities(sketches, active, representatives)
        waits = (priority[active] == COMPARED_PRIORITY) & (representatives != active)
        close = ~waits & (similarities >= verify)
        kept[active[close]] = representatives[close]
        similarity[active[close]] = similarities[close]
        pending[active[close]] = False
        groups = groups[pending[nodes]]
        nodes = nodes[pending[nodes]]

    return kept, similarity


def order_shared(keys: UInt64) -> Int64:
    """Return the indexes of keys that occur more than once, sorted by key, then by index."""
    order = np.argsort(keys, kind="stable")
    starts = find_group_starts(keys[order])
    shared: Int64 = order[~(starts & np.append(starts[1:], True))]
    return shared


def star_edges(
    groups: NDArray[np.generic], nodes: NDArray[Node]
) -> tuple[NDArray[Node], NDArray[Node]]:
    """Return edges from the first node of each group to the others: k - 1 edges for k members.

    groups [7, 7, 7, 9], nodes [3, 1, 5, 4] -> left [3, 3], right [1, 5]
    """
    starts = find_group_starts(groups)
    centers = nodes[starts][np.cumsum(starts) - 1]
    others = centers != nodes
    return centers[others], nodes[others]


def estimate_similarities(
    sketches: NDArray[np.uint16], left: Int64, right: Int64
) -> NDArray[np.float32]:
    """Return the estimated Jaccard similarity of pairs of rows of sketches [n, functions].

    The standard error is below 0.05; low bits are enough (b-bit MinHash, arXiv 0910.3349).
    """
    similarity = np.empty(len(left), np.float32)
    for start in range(0, len(left), _PAIR_BLOCK):
        pairs = slice(start, start + _PAIR_BLOCK)
        similarity[pairs] = np.mean(
            sketches[left[pairs]] == sketches[right[pairs]], axis=1, dtype=np.float32
        )
    return similarity
