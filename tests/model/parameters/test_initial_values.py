"""Laws against closed forms."""

import math

import pytest
import torch

from clozeline.model.parameters.initial_values import generator_for, normal


def drawn(law, size, name="x"):
    values = torch.full((size,), math.nan)
    law(values, generator_for(0, name))
    return values


def test_each_name_and_each_seed_has_numbers_of_its_own():
    generators = [
        generator_for(seed, name) for seed in (0, 1, 1 << 63, (1 << 63) + 1) for name in ("a", "b")
    ]
    assert len({tuple(torch.empty(4).normal_(generator=one).tolist()) for one in generators}) == 8


@pytest.mark.parametrize("cutoff", [0.5, 1.0, 2.0, 3.0])
def test_a_cut_law_has_the_shape_of_the_normal_one_inside(cutoff):
    """Shares of values below parts of the cutoff, against the error function.

    More values than one chunk.
    """
    values = drawn(normal(0.02, cutoff), (1 << 20) + 5).abs() / 0.02

    assert values.max() <= cutoff * (1 + 1e-6)

    for part in (0.25, 0.5, 0.75, 0.95):
        expected = math.erf(part * cutoff / 2**0.5) / math.erf(cutoff / 2**0.5)
        assert (values < part * cutoff).float().mean().item() == pytest.approx(
            expected, abs=0.003
        ), part
