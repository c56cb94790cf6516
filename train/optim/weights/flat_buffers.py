"""Map flat buffers, which the torch optimizer updates, to the parameters in them.

A flat parameter buffer (*flat*) is an fp32 tensor: a parameter at ZeRO stage 0, else this rank's
share of many, end to end, with padding. A `Segment` is the part of a flat that belongs to one
parameter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Segment:
    """Elements `[start, start + count)` of a parameter: `flat[offset : offset + count]`."""

    name: str
    shape: tuple[int, ...]
    """shape of the parameter"""
    flat: Tensor
    group: str
    """name of the parameter group"""
    offset: int
    start: int
    count: int

    def of(self, tensor: Tensor) -> Tensor:
        """Return the segment in a tensor that is as long as the flat: 1-D, a view if it can be."""
        return tensor.reshape(-1).narrow(0, self.offset, self.count)

    def within(self, parameter: Tensor) -> Tensor:
        """Return a 1-D view of the segment in a tensor of the shape of the parameter."""
        return parameter.view(-1).narrow(0, self.start, self.count)


class Layout:
    """The segments of every flat on all ranks, and sums over entire parameters.

    Flats with the same index on all ranks hold elements of the same parameters and are updated
    together: all ranks take part in each exchange, also one whose flat is only padding.
    """

    def __init__(
        self, flats: Sequence[Tensor], by_rank: Sequence[Sequence[Sequence[Segment]]], rank: int
    ) -> None:
        """Index the segments [rank][flat]; a single rank if every rank has all parameters."""
        self.rank = rank
        self.size = len(by_rank)
        self._of = {
            flat: [list(of_rank[index]) for of_rank in by_rank] for index, flat in enumerate(flats)
        }
        self._splits = {
            flat: _split_sizes(flat.numel(), of_rank[rank]) for flat, of_rank in self._of.items()
        }
        self._indices: dict[tuple[Tensor, ...], Tensor] = {}
        self._sizes: dict[tuple[Tensor, ...], Tensor] = {}

    def local_segments(self, *flats: Tensor) -> list[Segment]:
        """Return this rank's segments of flats."""
        return [segment for flat in flats for segment in self._of[flat][self.rank]]

    def by_rank(self, flat: Tensor) -> list[list[Segment]]:
        """Return each rank's segments of its flat with the same index."""
        return self._of[flat]

    def shapes(self, *flats: Tensor) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the parameters in flats on all ranks, sorted by name."""
        by_name = {
            segment.name: segment.shape
            for flat in flats
            for of_rank in self._of[flat]
            for segment in of_rank
        }
        return dict(sorted(by_name.items()))

    def pieces(self, flats: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return views of this rank's segments in tensors as long as the flats.

        A tensor that is one segment is returned itself; other views have one dimension.
        """
        views: list[Tensor] = []
        for flat, tensor in zip(flats, tensors, strict=True):
            sizes, chosen = self._splits[flat]
            parts = (tensor,) if len(sizes) == 1 else torch.split(tensor.view(-1), sizes)
            views += [parts[index] for index in chosen]
        return views

    def total(self, numbers: Tensor) -> Tensor:
        """Sum numbers over the ranks in place; in float64, the order does not matter in fp32."""
        if self.size > 1:
            dist.all_reduce(numbers)
        return numbers

    def whole_sums(self, flats: Sequence[Tensor], sums: Tensor) -> Tensor:
        """Return sums over entire parameters from float64 sums over segments, by one exchange.

        Both are [segments, k] in the order of `local_segments`. Every rank gets the same sums.
        """
        if self.size == 1:
            return sums
        if (key := tuple(flats)) not in self._indices:
            names = {name: index for index, name in enumerate(self.shapes(*flats))}
            self._indices[key] = torch.tensor(
                [names[s.name] for s in self.local_segments(*flats)], device=sums.device
            ).long()

        indices = self._indices[key]
        totals = sums.new_zeros(len(self.shapes(*flats)), sums.size(1)).index_copy_(
            0, indices, sums
        )
        return self.total(totals).index_select(0, indices)

    def whole_sizes(self, flats: Sequence[Tensor]) -> Tensor:
        """Return the size of the parameter of each local segment, float64 [segments]."""
        if (key := tuple(flats)) not in self._sizes:
            sizes = [prod(segment.shape) for segment in self.local_segments(*flats)]
            self._sizes[key] = torch.tensor(sizes, dtype=torch.float64, device=flats[0].device)
        return self._sizes[key]

    def exchange(self, sent: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """Send a vector to each rank, and return the vectors received, of these sizes."""
        joined = torch.cat(list(sent))
        arrived = joined.new_empty(sum(sizes))
        dist.all_to_all_single(arrived, joined, list(sizes), [len(part) for part in sent])
        return list(torch.split(arrived, list(sizes)))


def _split_sizes(length: int, segments: Sequence[Segment]) -> tuple[list[int], list[int]]:
    """Return the lengths of segments and of padding, and the index of each segment in them."""
    sizes = []
    index_of = {}
    end = 0
    for segment in sorted(segments, key=lambda segment: segment.offset):
        sizes += [segment.offset - end] if segment.offset > end else []
        index_of[segment.offset] = len(sizes)
        sizes.append(segment.count)
        end = segment.offset + segment.count
    sizes += [length - end] if length > end else []
    return sizes, [index_of[segment.offset] for segment in segments]


def local_layout(groups: Sequence[dict[str, Any]]) -> Layout:
    """Return the layout of parameters that are flats themselves, named by index."""
    flats = [parameter for group in groups for parameter in group["params"]]
    segments = [
        [Segment(f"{n:06d}", tuple(p.shape), p, "", 0, 0, p.numel())] for n, p in enumerate(flats)
    ]
    return Layout(flats, [segments], 0)
