"""Bounds of chance for tests of random draws."""

import math

import numpy as np


def chi_square_is_plausible(observed, expected, degrees, scale=1.0):
    """Return whether a chi-square lies where a right implementation leaves it in all but 2 of 10**6
    runs.

    The normal approximation of Wilson and Hilferty; `scale` divides the statistic (draws without
    replacement).
    """
    observed = np.asarray(observed, np.float64)
    expected = np.asarray(expected, np.float64)
    statistic = float(((observed - expected) ** 2 / expected).sum()) / scale
    spread = 2 / (9 * degrees)
    return abs(((statistic / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)) < 4.75


def within_sigmas(hits, trials, probability, sigmas=5):
    """Return whether a count of hits is binomial with this probability."""
    return abs(hits / trials - probability) <= sigmas * math.sqrt(
        probability * (1 - probability) / trials
    )
