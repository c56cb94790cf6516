"""Rates against exact fractions."""

from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clozeline.pipeline.kernels.rates import (
    MILLION,
    count_at_rate,
    count_between,
    largest_remainders,
    parts_per_million,
    powers,
    shares,
    span_count,
    thousandths,
)

one_decimal = st.lists(
    st.integers(1, 99).map(lambda tenths: tenths / 10),
    min_size=1,
    max_size=12,
)


@given(weights=one_decimal, total=st.integers(0, 5000))
@example(weights=[0.1, 0.2, 0.7], total=10)
@example(weights=[0.7, 0.1, 0.2], total=5)
def test_largest_remainders_equal_fractions(weights, total):
    tenths = [round(10 * weight) for weight in weights]
    exact = [Fraction(total * weight, sum(tenths)) for weight in tenths]
    counts = [floor(share) for share in exact]
    for _ in range(total - sum(counts)):
        deficit = [share - count for share, count in zip(exact, counts, strict=True)]
        counts[deficit.index(max(deficit))] += 1

    assert largest_remainders(weights, total) == tuple(counts)


def test_a_float_means_the_decimal_that_it_prints_as():
    """In floats 0.3 / 0.4 is less than 3/4, and the tie at 7.5 and 2.5 would go to the second."""
    assert largest_remainders([0.3, 0.1], 10) == largest_remainders([3, 1], 10) == (8, 2)
    assert largest_remainders([np.float64(0.5), np.int64(1), 0.5], 3) == (1, 1, 1)
    assert largest_remainders([1e308, 1e308], 5) == (3, 2)


@pytest.mark.parametrize(
    "weights",
    [
        [],
        [1.0, 0.0],
        [1.0, -1.0],
        [float("inf")],
        [float("nan"), 1.0],
    ],
)
def test_weights_must_be_finite_and_above_0(weights):
    with pytest.raises(ValueError, match=r"above 0|Invalid literal"):
        largest_remainders(weights, 10)


def test_shares_sum_to_a_million():
    assert shares([1.0] * 7) == (142_858, *([142_857] * 6))
    assert shares([2, 2, 1, 1]) == (333_333, 333_333, 166_667, 166_667)

    for weights in (
        [0.1, 0.2, 0.3],
        [1, 1e-9],
        [3.7] * 256,
    ):
        assert sum(shares(weights)) == MILLION
    with pytest.raises(ValueError, match="above 0"):
        shares([1.0, 0.0])


@given(
    st.integers(0, 70_000),
    st.integers(0, 1_000_000),
    st.none() | st.integers(0, 70_000),
)
def test_count_equals_fractions(n, ppm, most):
    half_up = floor(Fraction(n * ppm, 1_000_000) + Fraction(1, 2))
    wanted = 0 if n == 0 or ppm == 0 else min(n if most is None else most, max(1, half_up))
    assert int(count_at_rate(np.int64(n), ppm, most)) == wanted


@given(
    st.integers(0, 70_000),
    st.integers(0, MILLION),
    st.integers(0, MILLION),
    st.integers(0, 2**32 - 1),
)
@example(10, 200_000, 500_000, 2**32 - 1)
@example(10, 200_000, 500_000, 0)
def test_counts_between_rates_equal_fractions(n, one, other, bits):
    """The lowest is rounded up and the highest down; where nothing is between them, the lowest."""
    low, high = sorted((one, other))
    least = max(1, ceil(Fraction(n * low, MILLION)))
    counts = range(least, max(least, floor(Fraction(n * high, MILLION))) + 1)
    wanted = counts[bits * len(counts) >> 32] if n else 0
    assert count_between(
        np.array([n]),
        low,
        high,
        np.array([bits], np.uint64),
    ).tolist() == [wanted]


@given(
    st.integers(0, 20) | st.integers(0, 70_000), st.integers(1000, 100_000), st.integers(1, 70_000)
)
@example(2, 10_000, 9)
def test_spans_equal_fractions(noise, mean, room):
    half_up = floor(Fraction(1000 * noise, mean) + Fraction(1, 2))
    assert int(span_count(np.int64(noise), mean, room)) == min(noise, room, max(1, half_up))


def test_rates_are_read_as_decimals():
    """Half-even float rounding gives 76 of 510 and 4 of 30 at 0.15."""
    written = {0.15: 150_000, 0.166667: 166_667, 1.0: 1_000_000, 1e-6: 1}

    assert {rate: parts_per_million(rate) for rate in written} == written
    assert count_at_rate(np.array([510, 30, 190]), parts_per_million(0.15)).tolist() == [77, 5, 29]

    with pytest.raises(ValueError, match="six decimals"):
        parts_per_million(0.1234567)
    with pytest.raises(ValueError, match="three decimals"):
        thousandths(3.0001)


@given(
    numbers=st.lists(st.integers(1, 10**13), min_size=1, max_size=5),
    exponent=st.sampled_from(["0.3", "0.5", "0.7"]),
)
def test_powers_equal_those_of_another_library(numbers, exponent):
    """To 39 of the 40 digits; the last one is rounded."""
    with mpmath.workdps(60):
        wanted = [mpmath.mpf(number) ** mpmath.mpf(exponent) for number in numbers]
        for one, other in zip(powers(numbers, Decimal(exponent)), wanted, strict=True):
            assert (
                abs(mpmath.mpf(one.numerator) / one.denominator / other - 1) < mpmath.mpf(10) ** -39
            )


def test_exact_powers_are_exact():
    assert powers([4, 10**6, 10**12], Decimal("0.5")) == (2, 1000, 10**6)
    assert powers([7, 12345678901234], Decimal(1)) == (7, 12345678901234)
    assert powers([7, 9], Decimal(0)) == (1, 1)
    assert powers([8, 27, 10**12], Decimal("0." + 49 * "3")) == (2, 3, 10**4)
