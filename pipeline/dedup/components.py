"""Connected components of a graph that no process holds.

Edges become stars around the smallest node of each component.
Large-star and small-star steps alternate (Kiveris et al. 2014, "Connected Components in MapReduce
and Beyond"). Each step is a pass over hash ranges of nodes, and the number of steps grows with the
logarithm of the longest path. A unit holds the edges of its nodes.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64, UInt64
from clozeline.pipeline.dedup.parts import (
    DedupCounts,
    RangePass,
    find_group_starts,
    find_number_bounds,
    pack_rows,
    read_in_batches,
    read_rows,
    write_rows,
)
from clozeline.pipeline.execution.shuffle import Shuffle
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import KnownRecords, Output, total_counts
from clozeline.seeding import below, mix

STARS_VERSION: Final = 1
EDGE: Final = (("node", "<u8"), ("other", "<u8"))
"""Row of an edge, in the range of `node`."""


def find_components(count: int, left: Int64, right: Int64) -> Int64:
    """Return the smallest node that each of `count` nodes can reach, shape [count].

    Each round attaches the larger root of every edge to the smallest neighboring root, then follows
    pointers to the roots. Edges inside a component are dropped, so later rounds are cheaper.

    count 5, edges 3-1, 1-4 -> [0, 1, 2, 1, 1]
    """
    labels = np.arange(count, dtype=np.int64)

    while True:
        roots_left = labels[left]
        roots_right = labels[right]
        is_separate = roots_left != roots_right
        if not is_separate.any():
            return labels
        left = roots_left[is_separate]
        right = roots_right[is_separate]
        np.minimum.at(labels, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(jumped := labels[labels], labels):
            labels = jumped


def contract_edges(nodes: UInt64, others: UInt64) -> tuple[UInt64, UInt64]:
    """Return an edge from each node to the smallest node of its component, except from that one.

    nodes [9, 7], others [7, 5] -> [7, 9], [5, 5]
    """
    names, ends = np.unique(np.concatenate([nodes, others]), return_inverse=True)
    labels = find_components(len(names), ends[: len(nodes)], ends[len(nodes) :])
    leaves = np.flatnonzero(labels != np.arange(len(names)))
    return names[leaves], names[labels[leaves]]


def read_edges(folder: Path, shuffle: Shuffle, unit: int) -> NDArray[Any]:
    """Return the distinct edges of a range, sorted by (node, other).

    Repeated ones are dropped while reading.
    """
    distinct = np.empty(0, np.dtype(list(EDGE)))
    for batch in read_in_batches(folder, shuffle, unit, EDGE):
        edges = np.concatenate([distinct, batch])
        edges = edges[np.lexsort((edges["other"], edges["node"]))]
        distinct = edges[find_group_starts(edges["node"]) | find_group_starts(edges["other"])]
    return distinct


def find_ranges(nodes: UInt64, ranges: int) -> NDArray[np.uint16]:
    """Return the hash range of each node, shape [n]; sorting 16-bit numbers is fast."""
    return below(mix(nodes) >> np.uint64(32), ranges).astype(np.uint16)


def send_rows(
    output: Output, shuffle: Shuffle, source: str, nodes: UInt64, rows: NDArray[Any]
) -> None:
    """Send rows [n] to the ranges of their nodes [n]."""
    ranges = find_ranges(nodes, shuffle.destinations)
    order = np.argsort(ranges, kind="stable")
    bounds = find_number_bounds(ranges[order], shuffle.destinations)
    write_rows(output, shuffle, source, rows[order], bounds)


def send_stars(
    output: Output, shuffle: Shuffle, source: str, nodes: UInt64, others: UInt64
) -> None:
    """Contract the edges of a unit to stars, and send each edge to the ranges of both ends."""
    leaves, centers = contract_edges(nodes, others)
    ends = np.concatenate([leaves, centers])
    edges = pack_rows(EDGE, {"node": ends, "other": np.concatenate([centers, leaves])})
    send_rows(output, shuffle, source, ends, edges)


@dataclass
class _StarPass(RangePass):
    """A pass over ranges of nodes that reads edges and sends others."""

    folder: Path
    edges: Shuffle
    sent: Shuffle
    name: str = field(init=False)
    units: int = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.sent.name
        self.units = self.edges.destinations

    def options(self, unit: int) -> Mapping[str, Any]:
        return {"version": STARS_VERSION}

    def reads(self, unit: int, known: KnownRecords) -> Mapping[str, str]:
        return {"edges": self.edges.digest(self.folder, known, unit)}


@dataclass
class LargeStar(_StarPass):
    """Per range of nodes: join the larger neighbors of a node to its smallest one, or to itself.

    It reads edges in the ranges of both ends, and sends them to those of their larger ends. It
    counts nodes with a smaller neighbor and a further one. Without any, all edges are stars.
    """

    def run(self, unit: int, output: Output) -> DedupCounts:
        edges = read_edges(self.folder, self.edges, unit)
        nodes = np.ascontiguousarray(edges["node"])
        others = np.ascontiguousarray(edges["other"])
        first = np.flatnonzero(find_group_starts(nodes))
        sizes = np.diff(first, append=len(nodes))
        unsettled = (others[first] < nodes[first]) & (sizes > 1)

        smallest = np.minimum(nodes, np.repeat(others[first], sizes))
        larger = others > nodes
        ends = others[larger]
        sent = pack_rows(EDGE, {"node": ends, "other": smallest[larger]})
        send_rows(output, self.sent, self.unit_name(unit), ends, sent)
        return {"near": {"unsettled": int(unsettled.sum())}}


@dataclass
class SmallStar(_StarPass):
    """Per range of nodes: join the smaller neighbors of a node, and it, to the smallest of them.

    All edges of the unit are contracted at once, which joins at least as much. They are sent to the
    ranges of both ends.
    """

    def run(self, unit: int, output: Output) -> DedupCounts:
        edges = read_rows(self.folder, self.edges, unit, EDGE)
        send_stars(output, self.sent, self.unit_name(unit), edges["node"], edges["other"])
        return {}


def connect_nodes(folder: Path, edges: Shuffle) -> Generator[Pass[DedupCounts], None, Shuffle]:
    """Yield passes until all edges are stars, and return the shuffle of these.

    `edges` are in the ranges of both ends, like the result. A pass must be complete before the next
    is requested. Otherwise, its earlier counts say what is likely to follow.
    """
    base = edges.name

    def derive(name: str) -> Shuffle:
        return replace(edges, name=f"{base}-{name}", writer=f"{base}-{name}")

    for number in count(1):
        large = LargeStar(folder, edges, derive(f"large-{number:02d}"))
        yield large
        if not total_counts(folder, large.name).get("near", {}).get("unsettled"):
            break
        yield from large.sent.passes(folder)
        small = SmallStar(folder, large.sent, derive(f"small-{number:02d}"))
        yield small
        yield from small.sent.passes(folder)
        edges = small.sent

    return edges
