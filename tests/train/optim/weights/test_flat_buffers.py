"""The layout of flats: its segments tile every parameter, and its sums are those of whole parameters."""

from __future__ import annotations

from math import prod

import pytest
import torch

from clozeline.train.checkpoint.format import ParameterRecord, tiling_problem
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.optim.weights.flat_buffers import Layout, Segment
from tests.distributed import RankPool
from tests.train.synthetic import build, tiny


def test_a_segment_is_a_view_of_a_tensor_as_long_as_its_flat() -> None:
    flat = torch.arange(12.0).view(3, 4)
    segment = Segment("p", (5,), flat, "decay", 4, 2, 3)
    assert segment.of(flat).tolist() == [4, 5, 6]
    segment.of(flat).zero_()
    assert flat.sum() == sum(range(12)) - 15


def test_pieces_are_the_segments_of_tensors_in_their_order_without_the_padding() -> None:
    first, second, last = torch.arange(12.0), torch.arange(4.0), torch.arange(3.0)
    cut = [Segment("b", (5,), first, "", 7, 2, 3), Segment("a", (4,), first, "", 1, 0, 4)]
    whole = [Segment("c", (2, 2), second, "", 0, 0, 4)]
    layout = Layout([first, second, last], [[cut, whole, []]], 0)
    pieces = layout.pieces([first, second, last], [first, second.view(2, 2), last])
    assert [piece.tolist() for piece in pieces] == [[7, 8, 9], [1, 2, 3, 4], [[0, 1], [2, 3]]]
    pieces[0].zero_()
    assert first.tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 10, 11]
    assert layout.whole_sizes([first, second, last]).tolist() == [5, 4, 4]
    assert layout.shapes(first, last) == {"a": (4,), "b": (5,)}


def laid_out(world: World, config: TrainConfig) -> list[tuple[bool, str, list[int], list[tuple[int, int, int]]]]:
    """Of every parameter: whether ranks agree about a sum that counts each element once, and its slices."""
    engine = build(config, world)
    layout, found = engine.zero.layout, []
    for flat, _ in engine.zero.flats():
        places = torch.zeros(flat.numel())
        for segment in layout.own(flat):
            segment.of(places).copy_(torch.arange(segment.start, segment.start + segment.count))
        own = [(piece.double().sum(), piece.numel()) for piece in layout.pieces([flat], [places])]
        sums = layout.whole_sums([flat], torch.tensor(own, dtype=torch.float64).view(-1, 2))
        total = dict(zip((segment.name for segment in layout.own(flat)), sums.tolist(), strict=True))
        for name, shape in layout.shapes(flat).items():
            size = prod(shape)
            right = total.get(name, [size * (size - 1) / 2, size]) == [size * (size - 1) / 2, size]
            by_rank = enumerate(layout.by_rank(flat))
            slices = [(rank, s.start, s.count) for rank, of_rank in by_rank for s in of_rank if s.name == name]
            found.append((right, name, list(shape), slices))
    assert {name for _, name, *_ in found} == {name for name, _ in engine.model.named_parameters()}
    engine.close()
    return found


@pytest.mark.parametrize("stage", [0, 1, pytest.param(2, marks=pytest.mark.slow), 3])
def test_segments_tile_every_parameter_on_all_ranks_alike(two_ranks: RankPool, stage: int) -> None:
    first, second = two_ranks.run(laid_out, tiny(zero__stage=stage))
    assert first == second
    for right, name, shape, slices in first:
        assert right, name
        assert tiling_problem(name, ParameterRecord(shape, "decay", [], slices)) == ""
    assert (max(len(slices) for *_, slices in first) > 1) == (stage > 0)
