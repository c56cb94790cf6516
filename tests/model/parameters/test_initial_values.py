"""Laws against closed forms."""

import math

import pytest
import torch

from clozeline.model.parameters.initial_values import constant, constant_per_gate, generator_for, normal, uniform


def drawn(law, size, name="x"):
    values = torch.full((size,), math.nan)
    law(values, generator_for(0, name))
    return values


def test_each_name_and_each_seed_has_numbers_of_its_own():
    generators = [generator_for(seed, name) for seed in (0, 1, 1 << 63, (1 << 63) + 1) for name in ("a", "b")]
    assert len({tuple(torch.empty(4).normal_(generator=one).tolist()) for one in generators}) == 8


def test_constants_and_gates():
    assert drawn(constant(2.5), 3).tolist() == [2.5] * 3
    assert drawn(constant_per_gate(0.0, 1.0, -2.0), 6).tolist() == [0.0, 0.0, 1.0, 1.0, -2.0, -2.0]


def test_a_uniform_law_fills_its_range():
    values = drawn(uniform(0.3), 100_000)
    assert values.abs().max() <= 0.3
    assert values.mean().item() == pytest.approx(0.0, abs=0.003)
    assert values.std().item() == pytest.approx(0.3 / 3**0.5, rel=0.01)


@pytest.mark.parametrize("cutoff", [0.5, 1.0, 2.0, 3.0])
def test_a_cut_law_has_the_shape_of_the_normal_one_inside(cutoff):
    """Shares of values below parts of the cutoff, against the error function; more values than one chunk."""
    values = drawn(normal(0.02, cutoff), (1 << 20) + 5).abs() / 0.02
    assert values.max() <= cutoff * (1 + 1e-6)
    for part in (0.25, 0.5, 0.75, 0.95):
        expected = math.erf(part * cutoff / 2**0.5) / math.erf(cutoff / 2**0.5)
        assert (values < part * cutoff).float().mean().item() == pytest.approx(expected, abs=0.003), part


def test_a_law_without_cutoff_has_tails():
    values = drawn(normal(0.02), 100_000)
    assert values.std().item() == pytest.approx(0.02, rel=0.01)
    assert 3.5 < values.abs().max().item() / 0.02 < 6
