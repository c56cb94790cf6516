"""Decide a published claim from what was measured of two variants."""

from collections.abc import Sequence
from typing import Final

_EQUAL: Final = 1.05
"""Ratio of tokens, FLOPs or seconds up to which two variants count as equal."""


def judge(gain: float, error: float, seeds: int, spent: Sequence[float], equal: str) -> str:
    """Return whether a variant is better than another: `holds`, `does not hold` or `undecided`.

    `gain` is how much better the claimed variant is, and `error` its standard error over seeds:
    nothing within twice that decides. `spent` are the tokens, FLOPs or
    seconds (`equal`) of the claimed variant and of the other one. A variant that had more is not
    called better.

    Example:
        >>> judge(0.4, 0.1, 3, (2.0, 2.0), "FLOPs")
        'holds'
        >>> judge(-0.4, 0.1, 3, (2.0, 4.0), "tokens")
        'undecided: the better one had more tokens'
    """
    if seeds < 2:
        return "undecided: one seed"
    if abs(gain) <= 2 * error:
        return "undecided"
    winner, loser = spent if gain > 0 else spent[::-1]
    if winner > _EQUAL * loser:
        return f"undecided: the better one had more {equal}"
    return "holds" if gain > 0 else "does not hold"
