"""What is said about a score next to a baseline, and of few items."""

import numpy as np
import pytest

from clozeline.extensions.tasks.score_notes import FEWEST_ITEMS, note_few_items, note_if_worse


@pytest.mark.parametrize(
    ("value", "baseline", "better", "is_worse"),
    [
        (377.0, 109.0, "lower", True),
        (109.0, 377.0, "lower", False),
        (0.4, 0.5, "higher", True),
        (0.6, 0.5, "higher", False),
        (0.5, 0.5, "higher", False),
        (0.5, 0.5, "lower", False),
    ],
)
def test_a_worse_score_is_told_with_both_numbers(value, baseline, better, is_worse):
    note = note_if_worse(value, baseline, better, ".1f")
    assert bool(note) == is_worse
    if is_worse:
        assert f"{value:.1f} against {baseline:.1f}; {better} is better" in note


def test_the_standard_error_is_that_of_independent_items():
    """The deviation of the share that is right among 16 items, of which each is right with
    probability one half."""
    draws = np.random.default_rng(0).integers(0, 2, (20_000, 16)).mean(axis=1)
    assert f"up to {draws.std():.2f}" in note_few_items(16, "row")
    assert note_few_items(1, "pair").startswith("a share of 1 pair decides")
    assert note_few_items(FEWEST_ITEMS, "row") is None
    assert note_few_items(0, "row") is None
