"""Distributions against rules written as loops, and draws against their distribution."""

import numpy as np
import pytest
import torch

from clozeline.model.decoding.sampling import draw, probabilities, uniform


def by_the_rule(scores, temperature, top_k, top_p):
    """The rules in words, one row: a token at a time from the most probable, lower ids first among
    equals."""
    weights = [np.exp(float(score) / temperature) for score in scores]
    order = sorted(range(len(weights)), key=lambda token: (-weights[token], token))
    kept = order[:top_k]

    if top_p is not None:
        total = sum(weights[token] for token in kept)
        reached = 0.0
        nucleus = []

        for token in kept:
            nucleus.append(token)
            reached += weights[token] / total
            if reached >= top_p:
                break

        kept = nucleus

    total = sum(weights[token] for token in kept)
    return [weights[token] / total if token in kept else 0.0 for token in range(len(weights))]


@pytest.mark.parametrize("top_p", [None, 0.0001, 0.3, 0.75, 1.0])
@pytest.mark.parametrize("top_k", [None, 1, 4, 50])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_filters_keep_what_the_rules_keep(temperature, top_k, top_p):
    scores = torch.randn(6, 23, generator=torch.Generator().manual_seed(1)) * 2
    scores[0] = 0.0
    scores[1, 3:9] = scores[1].max() + 1  # ties at the edge of the filters
    found = probabilities(scores, temperature, top_k, top_p)
    expected = torch.tensor(
        [by_the_rule(row, temperature, top_k, top_p) for row in scores.double().tolist()]
    )

    assert torch.equal(found > 0, expected > 0)
    assert torch.allclose(found, expected.double(), atol=1e-9)


def test_draws_follow_the_distribution():
    """Chi-square of 40,000 keyed draws.

    The bound is the 0.9999 quantile of the law with 5 degrees of freedom.
    """
    scores = torch.randn(1, 9, generator=torch.Generator().manual_seed(2)) * 1.5
    distribution = probabilities(scores, 1.3, top_k=6)
    numbers = [uniform(11, row, step) for row in range(200) for step in range(200)]
    counts = torch.bincount(draw(distribution.expand(len(numbers), -1), numbers), minlength=9)
    expected = distribution[0] * len(numbers)

    assert counts[expected == 0].sum() == 0

    kept = expected > 0

    assert kept.sum() == 6
    assert (((counts - expected) ** 2)[kept] / expected[kept]).sum() < 25.75


def test_no_draw_takes_what_has_no_probability():
    distribution = torch.tensor([[0.0, 1e-30, 0.0, 0.7, 0.3, 0.0]], dtype=torch.float64)
    largest = 1 - 2.0**-48
    assert [draw(distribution, [number]).item() for number in (0.0, 0.5, largest)] == [1, 3, 4]


def test_numbers_depend_on_seed_row_and_step_alone():
    places = [(seed, row, step) for seed in (0, 1, -1) for row in range(20) for step in range(20)]
    numbers = [uniform(*place) for place in places]

    assert len(set(numbers)) == len(numbers)
    assert numbers == [uniform(*place) for place in places]
    assert all(0 <= number < 1 and (number * 2**48).is_integer() for number in numbers)
    assert [round(uniform(3, 1, step), 6) for step in range(3)] == [0.447467, 0.180172, 0.516842]
