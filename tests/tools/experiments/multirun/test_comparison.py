"""Means over seeds, and intervals of differences against Welch's formula, worked out from Student's t."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from scipy import stats

from clozeline.tools.experiments.multirun.comparison import Difference, difference_of, mean_and_deviation, mean_text


def welch(first: list[float], second: list[float]) -> tuple[float, float, float]:
    """Return the 95 % interval and the one-sided p by the formula, with the degrees of freedom of Satterthwaite."""
    parts = [(statistics.variance(group) / len(group), len(group) - 1) for group in (first, second)]
    variance = sum(part for part, _ in parts)
    degrees = variance**2 / sum(part**2 / more for part, more in parts)
    difference = statistics.mean(first) - statistics.mean(second)
    half = float(stats.t.ppf(0.975, degrees)) * math.sqrt(variance)
    return difference - half, difference + half, float(stats.t.sf(abs(difference) / math.sqrt(variance), degrees))


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [([3.2, 3.21, 3.19], [3.0, 3.02, 2.99], "held"), ([3.0, 3.02], [3.2, 3.21], "not held"),
     ([3.0, 3.3, 3.1, 3.2], [3.05, 3.2], "undecided"), ([3.0, 3.0], [2.9, 2.95], "undecided")],
)  # fmt: skip
def test_the_interval_is_that_of_welch(first: list[float], second: list[float], word: str) -> None:
    found, turned = difference_of(first, second), difference_of(second, first)
    assert (found.low, found.high, found.p) == pytest.approx(welch(first, second))
    assert found.word == word
    assert turned.difference == pytest.approx(-found.difference)
    assert (turned.low, turned.high, turned.p) == pytest.approx((-found.high, -found.low, found.p))  # type: ignore[operator]


def test_the_interval_holds_the_true_difference_as_often_as_it_says() -> None:
    draws = np.random.default_rng(4)
    hits = 0
    for _ in range(400):
        found = difference_of(draws.normal(0.1, 0.04, 3).tolist(), draws.normal(0, 0.02, 3).tolist())
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0.1 <= found.high
    assert 0.92 * 400 <= hits <= 0.99 * 400


def test_one_seed_decides_nothing() -> None:
    assert difference_of([0.5], [0.25, 0.3]) == Difference(pytest.approx(0.225))
    assert (Difference(0.5).word, Difference(0.5).text(2)) == ("one seed", "+0.50")


def test_seeds_without_a_spread() -> None:
    assert difference_of([0.5, 0.5], [0.25, 0.25]) == Difference(0.25, 0.25, 0.25, 0.0)
    assert difference_of([0.5, 0.5], [0.5, 0.5]) == Difference(0.0, 0.0, 0.0, 1.0)
    assert difference_of([0.5, 0.5], [0.5, 0.5]).word == "undecided"


def test_mean_and_deviation() -> None:
    values = [0.5, 0.75, 0.7]
    assert mean_and_deviation(values) == pytest.approx((statistics.mean(values), statistics.stdev(values)))
    assert mean_and_deviation([0.5]) == (0.5, None)
    assert (mean_text([1.0, 2.0], 1), mean_text([1.0], 3)) == ("1.5 ± 0.7", "1.000")
