"""Integer tables of discrete laws: exact thresholds, and what words mean at them."""

from fractions import Fraction
from itertools import accumulate
from math import floor, log

import mpmath
import numpy as np
import pytest

from clozeline.pipeline.kernels.distributions import (
    exponentials,
    frequency_thresholds,
    geometric_thresholds,
    inverse_cdf,
    poisson_thresholds,
    powers,
    reciprocal_thresholds,
)
from clozeline.seeding import mix

WORDS = mix(np.arange(100_000, dtype=np.uint64))


@pytest.mark.parametrize(("success", "longest"), [(1_000_000, 10), (200_000, 1), (50_000, 40)])
def test_tables_at_their_ends(success, longest):
    """Certain success means single words.

    A table longer than is compared one by one gives the same as a search.
    """
    table = geometric_thresholds(success, longest)
    words = mix(np.arange(5000, dtype=np.uint64))
    expected = [sum(bound <= word >> 32 for bound in table.tolist()) for word in words.tolist()]
    assert inverse_cdf(words, table).tolist() == expected
    assert max(expected) <= (1 if success == 1_000_000 else longest)


@pytest.mark.parametrize("entries", [3, 40])
def test_a_word_at_a_threshold_reaches_it(entries):
    """One below does not."""
    table = frequency_thresholds(np.arange(1, entries + 1))
    at = table << np.uint64(32)
    assert inverse_cdf(at, table).tolist() == list(range(1, entries))
    assert inverse_cdf(at - np.uint64(1), table).tolist() == list(range(entries - 1))


def test_thresholds_of_frequencies_are_exact():
    assert frequency_thresholds(np.array([3, 0, 4], np.uint64)).tolist() == [3 * 2**29, 2**31]
    counts = np.array([2**50, 1, 2**50], np.uint64)
    total = 2**51 + 1
    expected = [
        floor(Fraction(2**50, total) * 2**32),
        floor(Fraction(2**50 + 1, total) * 2**32),
    ]
    assert frequency_thresholds(counts).tolist() == expected


def test_thresholds_of_lengths_are_exact():
    """Of geometric and reciprocal weights; those of Poisson end where less than 2**-22 is left."""
    geometric = [Fraction(1, 5) * Fraction(4, 5) ** length for length in range(10)]
    for table, weights in (
        (geometric_thresholds(200_000, 10), geometric),
        (reciprocal_thresholds(5), [Fraction(1, length) for length in range(1, 6)]),
    ):
        below = [0, *accumulate(weights[:-1])]
        assert table.tolist() == [floor(2**32 * weight / sum(weights)) for weight in below]

    found = poisson_thresholds(3500)
    total = mpmath.mpf(0)
    wanted = []

    with mpmath.workdps(60):
        for length in range(100):
            total += mpmath.exp(-3.5) * mpmath.mpf(3.5) ** length / mpmath.factorial(length)
            wanted += [int(total * 2**32)] if 1 - total >= mpmath.mpf(2) ** -22 else []

    assert found.tolist() == wanted


def test_exponentials_are_logarithms():
    near_the_roots = [int(2**48 * 2**-0.5) + step for step in (-1, 0, 1)]
    drawn = (WORDS[:2000] >> np.uint64(16)).tolist()
    numbers = [
        0,
        1,
        2**47 - 1,
        2**47,
        *near_the_roots,
        2**48 - 2,
        2**48 - 1,
        *drawn,
    ]
    expected = [-log((number + 0.5) / 2**48) for number in numbers]
    assert exponentials(np.array(numbers, np.uint64)).tolist() == pytest.approx(expected, rel=1e-11)


def test_exponentials_have_the_same_bits_everywhere():
    found = exponentials(
        np.array(
            [
                0,
                2**20 + 3,
                2**47 - 1,
                2**48 - 2**30,
            ],
            np.uint64,
        )
    ).view(np.uint64)
    bits = [0x4040FB6B4B37945B, 0x4033687A671AF8D1, 0x3FE62E42FEFA3A0F, 0x3ED00001FFE0554D]
    assert found.tolist() == bits


def test_powers_of_counts():
    counts = np.array([16, 0, 1, 9, 16, 10**12], np.uint64)
    assert powers(counts, 0.5).tolist() == [4, 1, 1, 3, 4, 10**6]
    assert powers(counts, 1.0).tolist() == [16, 1, 1, 9, 16, 10**12]
    assert powers(np.array([10]), 0.3).tolist() == pytest.approx([10**0.3], rel=1e-15)
