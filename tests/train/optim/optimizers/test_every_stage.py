"""Every optimizer makes the same bits at every ZeRO stage and world size, and resumes to them at
any other."""

from math import prod

import pytest
import torch

from clozeline.train.optim.optimizers._optimizer import map_matrices
from clozeline.train.optim.weights.flat_buffers import Layout, Segment
from clozeline.train.registries import OPTIMIZERS
from tests.matrices import mark_slow_after
from tests.train.optim.optimizers import own
from tests.train.optim.optimizers.injected import configured, updated

OPTIMIZERS = {name: OPTIMIZERS.load_class(name) for name in OPTIMIZERS.available()}
EXACT = [name for name, kind in OPTIMIZERS.items() if kind.bit_exact]


@pytest.mark.parametrize("name", [own.NAME, *mark_slow_after(1, EXACT)])
def test_a_checkpoint_of_two_ranks_continues_at_other_stages_and_world_sizes(
    one_rank, two_ranks, tmp_path, name
):
    """Saved after three updates at stage 1 by two ranks, continued at stage 0 by one rank and at
    stage 3 by two."""
    straight = one_rank.run(updated, configured(name, 1, 0), 1, 6)
    two_ranks.run(updated, configured(name, 2, 1), 1, 3, None, tmp_path)
    assert one_rank.run(updated, configured(name, 1, 0), 4, 6, tmp_path) == straight
    assert two_ranks.run(updated, configured(name, 2, 3), 4, 6, tmp_path) == straight * 2


CUTS = {
    "a": ((3, 4), (8, 4)),
    "b": ((2, 3), (2, 4)),
    "c": ((3, 4), (12, 0)),
    "d": ((4, 2), (0, 8)),
}
"""Shapes of matrices, and how many of their elements each of two ranks holds."""


def mapped(world):
    """This rank's elements of the matrices, each less the mean of its matrix."""
    segments = [[], []]
    flat = torch.cat(
        [
            matrix(name)[sum(cuts[: world.rank]) :][: cuts[world.rank]]
            for name, (_, cuts) in CUTS.items()
        ]
    )

    for rank, of_rank in enumerate(segments):
        for name, (shape, cuts) in CUTS.items():
            offset = sum(one.count for one in of_rank)
            start = sum(cuts[:rank])
            of_rank += (
                [Segment(name, shape, flat, "matrix", offset, start, cuts[rank])]
                if cuts[rank]
                else []
            )

    layout = Layout([flat], [[own] for own in segments], world.rank)
    found = map_matrices(
        layout, [flat], [flat], lambda stack: stack - stack.mean((1, 2), keepdim=True)
    )
    return [piece.tolist() for piece in found]


def matrix(name):
    return torch.arange(float(prod(CUTS[name][0]))).square() * ord(name)


def test_matrices_that_are_cut_at_will_are_mapped_whole(two_ranks):
    whole = {name: matrix(name) - matrix(name).mean() for name in CUTS}
    slices = [
        {name: own.split(CUTS[name][1])[rank].tolist() for name, own in whole.items()}
        for rank in (0, 1)
    ]

    assert two_ranks.run(mapped) == [[own for own in of_rank.values() if own] for of_rank in slices]
