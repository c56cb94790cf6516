"""Early stopping against a plain count over whole histories, and the metrics that it may name."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.train.optim.early_stopping import (
    Best,
    EarlyStopConfig,
    check_metric,
    metric_value,
    should_stop,
    update_best,
)

HEADS = {"masked_lm": 1.0, "token": 50.0}


def waited(history, *, higher):
    """Place of the best value, and values after it: a loop over the whole history, without a
    state."""
    best = None
    place = 0

    for number, value in enumerate(history):
        gain = None if best is None else (value - best if higher else best - value)
        if math.isfinite(value) and (gain is None or gain > 0):
            best = value
            place = number

    return place, len(history) - 1 - place


@pytest.mark.parametrize("higher", [False, True])
def test_the_state_says_what_the_whole_history_says(*, higher):
    generator = np.random.Generator(np.random.PCG64(5))
    config = EarlyStopConfig(metric="heldout/loss", patience=3, higher=higher)

    for _ in range(40):
        history = [
            1.0,
            *generator.integers(-4, 5, 8).astype(float).tolist(),
        ]
        for place in generator.integers(1, 9, 2).tolist():
            history[place] = generator.choice([math.nan, math.inf, -math.inf])
        best = None

        for number, value in enumerate(history):
            best = update_best(config, best, value, 10 * number)
            place, evaluations = waited(history[: number + 1], higher=higher)
            assert best == Best("heldout/loss", history[place], 10 * place, evaluations)
            assert should_stop(config, best) == (evaluations >= 3)


def test_a_value_that_is_not_finite_is_never_the_best():
    config = EarlyStopConfig(metric="a/loss", patience=2)
    best = update_best(config, None, math.nan, 5)

    assert (best.value, best.evaluations) == (None, 0)

    best = update_best(config, update_best(config, best, math.inf, 10), math.nan, 15)

    assert should_stop(config, best)
    assert update_best(config, best, 9.0, 20) == Best("a/loss", 9.0, 20, 0)


def test_another_metric_begins_afresh_and_another_patience_does_not():
    best = Best("a/loss", 1.0, 5, 4)

    assert update_best(EarlyStopConfig(metric="b/loss"), best, 2.0, 10) == Best(
        "b/loss", 2.0, 10, 0
    )
    assert not should_stop(EarlyStopConfig(metric="b/loss", patience=1), best)
    assert not should_stop(EarlyStopConfig(metric="a/loss", patience=5), best)
    assert should_stop(EarlyStopConfig(metric="a/loss", patience=4), best)
    assert not should_stop(None, best)


@pytest.mark.parametrize(
    ("higher", "values"), [(False, [3.0, 2.02, 2.0, 2.5]), (True, [0.1, 0.49, 0.5, 0.2])]
)
def test_a_value_that_is_good_enough_ends_the_run(values, *, higher):
    """The third value is the target itself."""
    config = EarlyStopConfig(metric="a/loss", target=values[2], patience=9, higher=higher)
    best = None
    ended = []
    for step, value in enumerate(values[:3]):
        best = update_best(config, best, value, step)
        ended.append(should_stop(config, best))

    assert ended == [False, False, True]
    assert best == Best("a/loss", values[2], 2, 0)
    assert not should_stop(EarlyStopConfig(metric="b/loss", target=values[2], higher=higher), best)

    worse = update_best(config, update_best(config, None, math.nan, 0), values[3], 1)

    assert not should_stop(config, worse)
    assert not should_stop(EarlyStopConfig(metric="a/loss"), best)


def test_metrics_are_found_by_set_kind_and_name():
    evaluation = SimpleNamespace(
        loss=1.0, losses={"masked_lm": 2.0}, figures={"token/accuracy": 0.5}
    )
    found = {"de": evaluation, "en": SimpleNamespace(loss=7.0)}
    metrics = (
        "de/loss",
        "de/losses/masked_lm",
        "de/figures/token/accuracy",
        "en/loss",
        "mean/loss",
    )

    assert [metric_value(found, metric) for metric in metrics] == [1.0, 2.0, 0.5, 7.0, 4.0]

    named = {**found, "mean": SimpleNamespace(loss=9.0)}

    assert metric_value(named, "mean/loss") == 9.0, "a set of this name comes first"

    with pytest.raises(
        ConfigurationError, match="one of de/figures/token/accuracy, got 'de/figures/token/f1'"
    ):
        metric_value(found, "de/figures/token/f1")


@pytest.mark.parametrize(
    "metric", ["de/loss", "de/losses/token", "de/figures/token/f1", "mean/loss"]
)
def test_a_metric_that_an_evaluation_may_have_passes(metric):
    check_metric(EarlyStopConfig(metric=metric), {"de": None}, HEADS)


@pytest.mark.parametrize(
    "metric",
    ["loss", "fr/loss", "de/los", "de/losses/lm", "de/figures/lm/f1", "de/loss/x", "mean/los", ""],
)
def test_a_metric_that_no_evaluation_has_is_refused_with_a_list(metric):
    with pytest.raises(ConfigurationError) as caught:
        check_metric(EarlyStopConfig(metric=metric), {"de": None}, HEADS)

    assert (
        "expected one of de/loss, mean/loss, de/losses/masked_lm, de/losses/token, or SET"
        in str(caught.value)
    )

    with pytest.raises(ConfigurationError, match="there is no held-out set"):
        check_metric(EarlyStopConfig(metric=metric), {}, HEADS)
