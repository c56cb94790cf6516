"""Spikes against medians computed by numpy, and of a run whose set holds one wrong row."""

import numpy as np
import pytest

from clozeline.train.logs.spikes import Spikes, deviations


def plain(values, bar):
    """Places above the bar, each compared with the 200 values before it, of which there must be
    30."""
    found = []

    for place in range(30, len(values)):
        before = np.array(values[max(0, place - 200) : place])
        spread = 1.4826 * np.median(np.abs(before - np.median(before)))
        if spread > 0 and (values[place] - np.median(before)) / spread > bar:
            found.append(place)

    return found


def test_values_far_above_the_last_ones_are_found():
    generator = np.random.Generator(np.random.PCG64(5))
    losses = (4.0 * np.exp(-np.arange(500) / 150) + generator.normal(0, 0.1, 500)).tolist()
    for place in (10, 29, 30, 31, 250, 499):
        losses[place] += 8.0
    losses[300] -= 3.0
    expected = plain(losses, 6.0)

    assert set(expected) >= {30, 31, 250, 499}
    assert not {10, 29, 300} & set(expected)

    judged = Spikes(6.0, [])
    found = [place for place, loss in enumerate(losses) if "loss" in judged.detect({"loss": loss})]

    assert found == expected

    resumed = Spikes(6.0, [{"loss": loss} for loss in reversed(losses[:240])])

    assert [n for n in range(240, 500) if resumed.detect({"loss": losses[n]})] == [
        n for n in expected if n >= 240
    ]


def test_norms_are_judged_and_what_is_not_finite_is_left_out():
    judged = Spikes(
        6.0,
        [
            {
                "loss": 1.0,
                "gradient_norm": 1.0 + n % 2,
            }
            for n in range(40)
        ],
    )
    for wrong in (None, float("inf"), float("nan")):
        assert judged.detect({"loss": 1.0, "gradient_norm": wrong}) == {}

    assert judged.detect({"loss": 90.0, "gradient_norm": 15.0}) == {
        "gradient_norm": {"value": 15.0, "median": 1.5, "deviations": 13.5 / (1.4826 * 0.5)}
    }, "losses that are all alike have no spread"
    assert deviations(9, [1, 2, 3, 4, 5]) == pytest.approx(4.05, abs=0.005)
