"""Write notes on scores that are below a baseline, or computed from few items."""

import math
from typing import Final

from clozeline.errors import plural
from clozeline.model.configuration.head import Better

FEWEST_ITEMS: Final = 100
"""Rows, pairs or facts below which a share of them has a standard error of up to 0.05, or more."""


def note_if_worse(value: float, baseline: float, better: Better, shown: str = ".4f") -> str:
    """Return a note for a score that is worse than its baseline, with both numbers.

    Empty for another one.

    Example:
        >>> note_if_worse(377.0, 109.0, "lower", ".0f")
        '  worse than this baseline (377 against 109; lower is better)'
    """
    is_worse = value < baseline if better == "higher" else value > baseline
    if not is_worse:
        return ""
    return (
        f"  worse than this baseline ({value:{shown}} against {baseline:{shown}}; {better} is "
        "better)"
    )


def note_few_items(count: int, item: str) -> str | None:
    """Return a line for a share of few items, such as `row`; None for `FEWEST_ITEMS` or more.

    The standard error of a share of n independent items is at most 1 / (2 sqrt(n)), where half of
    them are right.
    """
    if not 0 < count < FEWEST_ITEMS:
        return None
    error = 0.5 / math.sqrt(count)
    return (
        f"a share of {plural(count, item)} decides nothing: its standard error is up to {error:.2f}"
    )
