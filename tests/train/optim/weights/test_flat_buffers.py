"""The layout of flats: its segments tile every parameter, and its sums are those of whole parameters."""

from __future__ import annotations

from math import prod

import pytest
import torch

from clozeline.train.checkpoint.format import ParameterRecord, tiling_problem
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.optim.weights.flat_buffers import Segment, iterate_flats, layout_of, local_layout
from tests.distributed import RankPool
from tests.train.synthetic import build, tiny


def test_a_segment_is_a_view_of_a_tensor_as_long_as_its_flat() -> None:
    flat = torch.arange(12.0).view(3, 4)
    segment = Segment("p", (5,), flat, "decay", 4, 2, 3)
    assert segment.of(flat).tolist() == [4, 5, 6]
    segment.of(flat).zero_()
    assert flat.sum() == sum(range(12)) - 15


def test_parameters_of_their_own_are_summed_in_float64() -> None:
    first, second = torch.full((3, 2), 1e8), torch.ones(4)
    layout = local_layout([{"params": [first]}, {"params": [second]}])
    first[0, 0] = 1.0
    ((name, found),) = layout.sums(first, [first, -first]).items()
    assert layout.shapes(first) == {name: (3, 2)}
    assert found.tolist() == [5e8 + 1, -5e8 - 1], "in float32 the 1 would be lost"
    assert [segment.count for segment in layout.own(second)] == [4]


def laid_out(world: World, config: TrainConfig) -> list[tuple[bool, str, list[int], list[tuple[int, int, int]]]]:
    """Of every parameter: whether ranks agree about a sum that counts each element once, and its slices."""
    engine = build(config, world)
    layout, found = layout_of(engine.model, engine.deepspeed, world), []
    for flat, _ in iterate_flats(engine.deepspeed):
        places = torch.zeros(flat.numel())
        for segment in layout.own(flat):
            segment.of(places).copy_(torch.arange(segment.start, segment.start + segment.count))
        sums = layout.sums(flat, [places, torch.ones_like(places)])
        for name, shape in layout.shapes(flat).items():
            size = prod(shape)
            right = sums[name].tolist() == [size * (size - 1) / 2, size]
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
