"""Means over seeds, and the paired bootstrap against the normal law of the mean difference of rows."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import ConfigurationError
from pipeline.task_readers import TaskFacts
from tools.evaluation.comparison import ScoredRun, mean_and_deviation, paired_bootstrap
from tools.evaluation.unit_sums import mean_units

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
    found = paired_bootstrap(first, second, "accuracy")
    assert found.difference == pytest.approx(mean)
    assert found.low == pytest.approx(mean - 1.96 * error, abs=0.25 * error)
    assert found.high == pytest.approx(mean + 1.96 * error, abs=0.25 * error)
    assert found.p == pytest.approx(0.5 * math.erfc(abs(mean) / error / math.sqrt(2)), abs=0.04)


def test_the_other_way_round() -> None:
    first, second = group(0.72, 1, 0), group(0.7, 1, 10)
    found, turned = (paired_bootstrap(*pair, "accuracy", resamples=50) for pair in ((first, second), (second, first)))
    assert (turned.difference, turned.p) == (-found.difference, found.p)
    assert (turned.low, turned.high) == (pytest.approx(-found.high), pytest.approx(-found.low))


def test_equal_groups_are_no_different() -> None:
    found = paired_bootstrap(group(0.7, 2, 0), group(0.7, 2, 0), "accuracy", resamples=50)
    assert (found.difference, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_a_clear_difference_has_the_least_p() -> None:
    assert paired_bootstrap(group(0.95, 1, 0), group(0.5, 1, 1), "accuracy", resamples=50).p == pytest.approx(1 / 51)


def test_other_rows_are_not_compared() -> None:
    with pytest.raises(ConfigurationError, match="a comparison needs scores on one set, got 2: a, b"):
        paired_bootstrap(group(0.7, 1, 0), group(0.7, 1, 1, "b"), "accuracy")


def test_mean_and_deviation() -> None:
    values = [0.5, 0.75, 0.7]
    assert mean_and_deviation(values) == pytest.approx((statistics.mean(values), statistics.stdev(values)))
    assert mean_and_deviation([0.5]) == (0.5, None)


def test_means_of_units_are_compared_like_rows() -> None:
    """An accuracy over rows, and the same one as a mean over units: the same draws, the same interval."""
    first, second = group(0.72, 2, 0), group(0.7, 1, 10)
    other = [
        [replace(run, answers=np.zeros(0), units={"accuracy": np.array(mean_units(run.predicted == run.answers))})
         for run in one] for one in (first, second)
    ]  # fmt: skip
    assert other[0][0].rows == ROWS
    rows, units = (paired_bootstrap(*pair, "accuracy", resamples=50) for pair in ((first, second), other))
    assert (rows.difference, rows.low, rows.high) == pytest.approx((units.difference, units.low, units.high))
    assert rows.p == units.p
