"""Means and differences over seeds."""

from __future__ import annotations

import pytest

from clozeline.tools.experiments.multirun.comparison import difference_text, mean_text


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [([3.0, 3.2, 3.1], [2.0, 2.4], "+0.90 ± 0.38"), ([2.0, 2.4], [3.0, 3.2, 3.1], "-0.90 ± 0.38"),
     ([0.5, 0.5], [0.25, 0.25], "+0.25 ± 0.00"), ([0.5], [0.2, 0.3], "+0.25 (one seed)")],
)  # fmt: skip
def test_a_difference_has_the_deviations_of_both_groups(first: list[float], second: list[float], shown: str) -> None:
    assert difference_text(first, second, 2) == shown


def test_a_mean_has_the_deviation_of_a_sample() -> None:
    assert (mean_text([1.0, 2.0], 1), mean_text([1.0], 3)) == ("1.5 ± 0.7", "1.000")
