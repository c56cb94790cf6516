"""Cluster near-duplicates: components of candidates, each member compared with the document that is kept."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.pipeline.dedup.against import OTHER_MERIT
from clozeline.pipeline.dedup.components import find_components, star_edges
from clozeline.pipeline.dedup.keep_rules import Uids, choose_kept
from clozeline.pipeline.dedup.near import estimate_similarities

CLUSTERS_VERSION: Final = 1
"""Raised when the rule that forms clusters changes."""
_ROUNDS: Final = 32  # of cutting clusters out of a component; later documents are kept, so that the time is linear


def resolve(
    groups: NDArray[Any], nodes: Int64, uids: Uids, merit: Int64, sketches: NDArray[np.uint16], verify: float | None
) -> tuple[Int64, NDArray[np.float32]]:
    """Return the row that is kept for each of n documents (its own if it is kept), and the similarity to that row.

    The result depends on the set of documents only, not on their order.

    The representative of a component is the document of highest merit (ties: smallest uid). Members less similar to
    it than `verify` leave, form new components by the band keys they share, and so on. This breaks chains: of
    A ~ B ~ C where A and C differ, C is not dropped for A. With None, no component is split.

    `groups` are band keys, shape [m], `nodes` the row that has each key, below n. The others have a row per document:
    uids of 16 bytes and merits of the keep rule, shape [n], and sketches, shape [n, functions].
    """
    kept = np.arange(len(uids), dtype=np.int64)
    similarity = np.ones(len(uids), dtype=np.float32)
    for _ in range(_ROUNDS):
        # components of the pending documents, and the representative of each
        left, right = star_edges(groups, nodes)
        if not len(left):
            break
        active, ends = np.unique(np.concatenate((left, right)), return_inverse=True)
        labels = find_components(len(active), ends[: len(left)], ends[len(left) :])
        representatives = active[choose_kept(labels, merit[active], uids[active])]
        # a document of another output always stays: it waits until it is a representative itself
        stays = (merit[active] == OTHER_MERIT) & (representatives != active)
        # members close enough to their representative are decided; the others stay pending
        likeness = estimate_similarities(sketches[active], sketches[representatives])
        close = ~stays if verify is None else ~stays & (likeness >= verify)
        kept[active[close]], similarity[active[close]] = representatives[close], likeness[close]
        pending = np.zeros(len(uids), dtype=bool)
        pending[active[~close]] = True
        groups, nodes = groups[pending[nodes]], nodes[pending[nodes]]
    return kept, similarity


def smallest_uids(kept: Int64, uids: Uids) -> Int64:
    """Return for each row the row with the smallest uid of its cluster, which names the cluster."""
    return choose_kept(kept, np.zeros(len(kept), dtype=np.int64), uids)
