"""Apply a function to entire matrices whose elements are spread over ranks: one rank computes each matrix."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Final

import torch
from torch import Tensor

from clozeline.train.optim.weights.flat_buffers import Layout, Segment

STACKED_BYTES: Final = 1 << 26
"""Maximum size of a stack of matrices that are computed together; an iteration needs a few times as much."""


def map_matrices(
    layout: Layout, flats: Sequence[Tensor], values: Sequence[Tensor], function: Callable[[Tensor], Tensor]
) -> list[Tensor]:
    """Apply a function to every matrix in flats; return the results of this rank's segments as vectors, as `own`.

    Slices of a split matrix go to its owner and back, by two exchanges. A matrix on one rank stays there.
    `values` are contiguous vectors as long as the flats. The function gets stacks [matrices, rows, columns] of equal
    shape, of at most `STACKED_BYTES` or a single matrix; its result has their shape and dtype, and is contiguous.
    """
    # who owns each matrix, and which slices travel
    me = layout.rank
    by_rank = [[s for flat in flats for s in layout.by_rank(flat)[rank]] for rank in range(layout.size)]
    owner = owners(by_rank)
    pieces = dict(zip(((s.name, s.start) for s in by_rank[me]), layout.pieces(flats, values), strict=True))
    others = [rank for rank in range(layout.size) if rank != me]
    travels = any(owner[s.name] != rank for rank, segments in enumerate(by_rank) for s in segments)
    lent = [[s for s in by_rank[me] if owner[s.name] == rank and rank != me] for rank in range(layout.size)]
    taken = [[s for s in by_rank[rank] if owner[s.name] == me and rank != me] for rank in range(layout.size)]
    # collect the slices of own matrices
    slices: dict[str, list[tuple[int, Tensor]]] = defaultdict(list)
    for s in by_rank[me]:
        if owner[s.name] == me:
            slices[s.name].append((s.start, pieces[s.name, s.start]))
    if travels:
        outgoing = [_join((pieces[s.name, s.start] for s in of), values[0]) for of in lent]
        arrived = layout.exchange(outgoing, _sizes(taken))
        for rank in others:
            for s, part in zip(taken[rank], _split(arrived[rank], taken[rank]), strict=True):
                slices[s.name].append((s.start, part))
    # compute own matrices, those of equal shape together
    shapes = layout.shapes(*flats)
    results: dict[str, Tensor] = {}
    alike: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for name in slices:
        alike[shapes[name]].append(name)
    for shape, names in alike.items():
        count = max(1, STACKED_BYTES // (values[0].element_size() * prod(shape)))
        for some in (names[first : first + count] for first in range(0, len(names), count)):
            found = function(torch.stack([_join_slices(slices[name], shape) for name in some]))
            results.update(zip(some, found.view(len(some), -1).unbind(), strict=True))
    # put back own slices, and send the others to their ranks
    mapped = {(s.name, s.start): _slice(results[s.name], s) for s in by_rank[me] if owner[s.name] == me}
    if travels:
        outgoing = [_join((_slice(results[s.name], s) for s in of), values[0]) for of in taken]
        arrived = layout.exchange(outgoing, _sizes(lent))
        for rank in others:
            mapped.update(zip(((s.name, s.start) for s in lent[rank]), _split(arrived[rank], lent[rank]), strict=True))
    return [mapped[s.name, s.start] for s in by_rank[me]]


def owners(by_rank: Sequence[Sequence[Segment]]) -> dict[str, int]:
    """Return the rank that computes each matrix: the one with most of it, on ties the least loaded."""
    elements: dict[str, list[int]] = {}
    for rank, segments in enumerate(by_rank):
        for s in segments:
            elements.setdefault(s.name, [0] * len(by_rank))[rank] += s.count
    load, owner = [0] * len(by_rank), {}
    # unsplit ones first: they cannot move
    for name in sorted(elements, key=lambda name: (sum(map(bool, elements[name])) > 1, name)):
        most = max(elements[name])
        owner[name] = min((rank for rank, n in enumerate(elements[name]) if n == most), key=load.__getitem__)
        load[owner[name]] += sum(elements[name])
    return owner


def _join_slices(slices: list[tuple[int, Tensor]], shape: tuple[int, ...]) -> Tensor:
    parts = [part for _, part in sorted(slices, key=lambda own: own[0])]
    return (parts[0] if len(parts) == 1 else torch.cat(parts)).view(shape)


def _slice(matrix: Tensor, s: Segment) -> Tensor:
    return matrix if s.count == len(matrix) else matrix.narrow(0, s.start, s.count)


def _sizes(segments: Sequence[Sequence[Segment]]) -> list[int]:
    return [sum(s.count for s in of_rank) for of_rank in segments]


def _join(parts: Iterable[Tensor], like: Tensor) -> Tensor:
    return torch.cat([like.new_empty(0), *parts])


def _split(joined: Tensor, segments: Sequence[Segment]) -> Sequence[Tensor]:
    return torch.split(joined, [s.count for s in segments])
