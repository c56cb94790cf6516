"""Apply a function to entire matrices whose elements are spread over ranks: one rank computes each matrix."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from clozeline.train.optim.weights.flat_buffers import Layout, Segment


def map_matrices(layout: Layout, flat: Tensor, values: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a function to every matrix in a flat; return this rank's elements of the results, as long as the flat.

    Slices of a split matrix go to its owner and back, by two exchanges per flat. A matrix on one rank stays there.
    `values` are contiguous and as long as the flat; the function keeps shape [rows, columns] and dtype.
    """
    # who owns each matrix, and which slices travel
    by_rank, me = layout.by_rank(flat), layout.rank
    owner = owners(by_rank)
    others = [rank for rank in range(layout.size) if rank != me]
    travels = any(owner[s.name] != rank for rank, segments in enumerate(by_rank) for s in segments)
    lent = [[s for s in by_rank[me] if owner[s.name] == rank and rank != me] for rank in range(layout.size)]
    taken = [[s for s in by_rank[rank] if owner[s.name] == me and rank != me] for rank in range(layout.size)]
    # collect the slices of own matrices
    slices: dict[str, list[tuple[int, Tensor]]] = defaultdict(list)
    for s in by_rank[me]:
        if owner[s.name] == me:
            slices[s.name].append((s.start, s.of(values)))
    if travels:
        arrived = layout.exchange([_join((s.of(values) for s in of), values) for of in lent], _sizes(taken))
        for rank in others:
            for s, part in zip(taken[rank], _split(arrived[rank], taken[rank]), strict=True):
                slices[s.name].append((s.start, part))
    # compute own matrices
    shapes, results = layout.shapes(flat), {}
    for name, parts in slices.items():
        matrix = torch.cat([part for _, part in sorted(parts, key=lambda part: part[0])])
        results[name] = function(matrix.view(shapes[name])).reshape(-1)
    # put back own slices, and send the others to their ranks
    mapped = torch.zeros_like(values)
    for s in by_rank[me]:
        if owner[s.name] == me:
            s.of(mapped).copy_(results[s.name].narrow(0, s.start, s.count))
    if travels:
        outgoing = [_join((results[s.name].narrow(0, s.start, s.count) for s in of), values) for of in taken]
        arrived = layout.exchange(outgoing, _sizes(lent))
        for rank in others:
            for s, part in zip(lent[rank], _split(arrived[rank], lent[rank]), strict=True):
                s.of(mapped).copy_(part)
    return mapped


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


def _sizes(segments: Sequence[Sequence[Segment]]) -> list[int]:
    return [sum(s.count for s in of_rank) for of_rank in segments]


def _join(parts: Iterable[Tensor], like: Tensor) -> Tensor:
    return torch.cat([like.new_empty(0), *parts])


def _split(joined: Tensor, segments: Sequence[Segment]) -> Sequence[Tensor]:
    return torch.split(joined, [s.count for s in segments])
