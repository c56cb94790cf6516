"""Divergences in plain loops."""

import math


def slow_divergence(theirs, ours):
    """KL(theirs ‖ ours) of probabilities."""
    return sum(p * math.log(p / q) for p, q in zip(theirs, ours, strict=True) if p > 0)
