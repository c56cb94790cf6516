"""Clusters of near-duplicates: candidate groups to components, checked member by member against the one that stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.dedup.components import connected_components, star_edges
from clozeline.pipeline.dedup.keep_rules import kept_rows
from clozeline.pipeline.dedup.near import similarities

CLUSTERS_VERSION: Final = 1
"""Raised when the rule that forms clusters changes."""

_ROUNDS: Final = 32
"""Rounds that cut clusters out of a component. Documents that remain then stay, so the time is linear."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """For each of n documents the row that is kept in its place (its own where it stays), and the similarity to it."""

    kept: NDArray[np.int64]
    similarity: NDArray[np.float32]


def resolve(
    groups: NDArray[Any],
    nodes: NDArray[np.int64],
    uids: NDArray[np.bytes_],
    merit: NDArray[np.int64],
    sketches: NDArray[np.uint16],
    verify: float | None,
) -> Clusters:
    """Decide which documents stay, as a function of the set of documents alone.

    A component's representative is the document of highest merit (ties: smallest uid). A member less similar to it
    than `verify` leaves. Members that left form new components by the band keys they share, and so on.
    That stops chains: of A ~ B ~ C with A unlike C, C is not dropped for A.

    Args:
        groups: band keys, shape [m].
        nodes: the row that has each key, shape [m], values below n.
        uids: 16 bytes, shape [n].
        merit: of the keep rule, shape [n].
        sketches: shape [n, functions].
        verify: smallest estimated similarity to the representative; None keeps components whole.
    """
    kept = np.arange(len(uids), dtype=np.int64)
    similarity = np.ones(len(uids), dtype=np.float32)
    for _ in range(_ROUNDS):
        left, right = star_edges(groups, nodes)
        if not len(left):
            break
        active, ends = np.unique(np.concatenate((left, right)), return_inverse=True)
        labels = connected_components(len(active), ends[: len(left)], ends[len(left) :])
        representatives = active[kept_rows(labels, merit[active], uids[active])]
        likeness = similarities(sketches[active], sketches[representatives])
        stays = np.ones(len(active), dtype=bool) if verify is None else likeness >= verify
        settled = active[stays]
        kept[settled], similarity[settled] = representatives[stays], likeness[stays]
        pending = np.zeros(len(uids), dtype=bool)
        pending[active[~stays]] = True
        groups, nodes = groups[pending[nodes]], nodes[pending[nodes]]
    return Clusters(kept, similarity)


def smallest_uids(kept: NDArray[np.int64], uids: NDArray[np.bytes_]) -> NDArray[np.int64]:
    """Return for each row the row of its cluster with the smallest uid, which names the cluster."""
    return kept_rows(kept, np.zeros(len(kept), dtype=np.int64), uids)
