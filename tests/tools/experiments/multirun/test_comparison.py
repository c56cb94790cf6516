"""Means over seeds, and comparisons against the normal law of rows and Welch's t test of seeds."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.tools.experiments.multirun.comparison import ScoredRun, compare_runs, mean_and_deviation, mean_text
from clozeline.tools.runs.evaluation.unit_sums import mean_units

FACTS = TaskFacts(name="toy", head="classification", labels=("0", "1"), metrics=("accuracy",))
ROWS = 800


def group(right: float, seeds: int, first: int, dataset: str = "a") -> list[ScoredRun]:
    """Runs that are right in a share of the rows."""
    answers = np.arange(ROWS) % 2
    runs = []
    for seed in range(first, first + seeds):
        wrong = np.random.Generator(np.random.PCG64(seed)).random(ROWS) > right
        runs.append(ScoredRun({"set": dataset}, FACTS, answers, np.where(wrong, 1 - answers, answers)))
    return runs


@pytest.mark.parametrize("right", [0.72, 0.715], ids=["far", "near"])
def test_the_bootstrap_is_near_the_normal_law(right: float) -> None:
    first, second = group(right, 2, 0), group(0.70, 1, 10)
    rows = [np.mean([run.predicted == run.answers for run in one], axis=0) for one in (first, second)]
    gaps = (rows[0] - rows[1]).tolist()
    mean, error = statistics.mean(gaps), statistics.pstdev(gaps) / math.sqrt(ROWS)
    found = compare_runs(first, second, "accuracy", resamples=300)
    assert found.difference == pytest.approx(mean)
    assert found.low == pytest.approx(mean - 1.96 * error, abs=0.25 * error)
    assert found.high == pytest.approx(mean + 1.96 * error, abs=0.25 * error)
    assert found.p == pytest.approx(0.5 * math.erfc(abs(mean) / error / math.sqrt(2)), abs=0.04)


def test_the_other_way_round() -> None:
    first, second = group(0.72, 1, 0), group(0.7, 1, 10)
    found, turned = (compare_runs(*pair, "accuracy", resamples=50) for pair in ((first, second), (second, first)))
    assert (turned.difference, turned.p) == (-found.difference, found.p)
    assert (turned.low, turned.high) == (pytest.approx(-found.high), pytest.approx(-found.low))


def test_equal_groups_are_no_different() -> None:
    found = compare_runs(group(0.7, 1, 0), group(0.7, 1, 0), "accuracy", resamples=50)
    assert (found.difference, found.low, found.high, found.p, found.seeds) == (0.0, 0.0, 0.0, 1.0, 1)
    found = compare_runs(group(0.7, 2, 0), group(0.7, 2, 0), "accuracy", resamples=50)
    assert (found.difference, found.p) == (0.0, pytest.approx(0.5)), "equal runs, of which other seeds may differ"
    assert found.low == -found.high < 0


def test_a_clear_difference_has_a_small_p() -> None:
    assert compare_runs(group(0.95, 1, 0), group(0.5, 1, 1), "accuracy", resamples=50).p < 1e-6


def test_seeds_and_rows_add_up_in_squares() -> None:
    """The p-value of a group whose seeds differ by more than the rows explain is nearly Welch's; no p is below it."""
    first, second = ([run for one in enumerate(shares) for run in group(one[1], 1, start + one[0])]
                     for start, shares in ((0, (0.5, 0.7, 0.9)), (10, (0.4, 0.6, 0.8))))  # fmt: skip
    values = [[run.value("accuracy", np.arange(ROWS)) for run in runs] for runs in (first, second)]
    welch = stats.ttest_ind(*values, equal_var=False)
    found = compare_runs(first, second, "accuracy", resamples=100)
    assert welch.pvalue / 2 < found.p < welch.pvalue / 2 + 0.02
    of_rows = np.mean([run.predicted == run.answers for run in first], axis=0) - np.mean(
        [run.predicted == run.answers for run in second], axis=0
    )
    squares = of_rows.var() / ROWS + sum(np.var(one, ddof=1) / 3 for one in values)
    assert found.error == pytest.approx(math.sqrt(squares), rel=0.05)


def test_other_rows_are_not_compared() -> None:
    with pytest.raises(ConfigurationError, match="a comparison needs scores on one set, got 2: a, b"):
        compare_runs(group(0.7, 1, 0), group(0.7, 1, 1, "b"), "accuracy")


def test_mean_and_deviation() -> None:
    values = [0.5, 0.75, 0.7]
    assert mean_and_deviation(values) == pytest.approx((statistics.mean(values), statistics.stdev(values)))
    assert mean_and_deviation([0.5]) == (0.5, None)
    assert (mean_text([1.0, 2.0], 1), mean_text([1.0], 3)) == ("1.5 ± 0.7", "1.000")


def test_means_of_units_are_compared_like_rows() -> None:
    """An accuracy over rows, and the same one as a mean over units: the same draws, the same interval."""
    first, second = group(0.72, 2, 0), group(0.7, 1, 10)
    other = [
        [replace(run, answers=np.zeros(0), units={"accuracy": np.array(mean_units(run.predicted == run.answers))})
         for run in one] for one in (first, second)
    ]  # fmt: skip
    assert other[0][0].rows == ROWS
    rows, units = (compare_runs(*pair, "accuracy", resamples=50) for pair in ((first, second), other))
    assert (rows.difference, rows.low, rows.high) == pytest.approx((units.difference, units.low, units.high))
    assert rows.p == units.p
