"""Early stopping against a plain count over whole histories, and the metrics that it may name."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.registries import HEADS
from clozeline.train.optim.early_stopping import (
    Best,
    EarlyStopConfig,
    check_metric,
    metric_value,
    should_stop,
    update_best,
)

CASES = {"masked_lm": {}, "token": {}, "classification": {"classes": 2, "exits": "joint"}}
KNOWN = {
    "loss": False,
    "losses/masked_lm": False,
    "losses/token": False,
    "losses/classification": False,
    "figures/token/accuracy": True,
    "figures/classification/accuracy": True,
    "figures/classification/exit_1": False,
    "figures/classification/exit_2": False,
}
"""Metrics of a set, and whether higher values are better."""
RISES = {False: "heldout/loss", True: "heldout/figures/token/accuracy"}


def check(metric, *sets):
    heads = {name: HEADS.load_class(name).Options(**options) for name, options in CASES.items()}
    check_metric(EarlyStopConfig(metric=metric), sets, heads, layers=2)


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
    config = EarlyStopConfig(metric=RISES[higher], patience=3)

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
            assert best == Best(config.metric, history[place], 10 * place, evaluations)
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
    config = EarlyStopConfig(metric=RISES[higher], target=values[2], patience=9)
    best = None
    ended = []
    for step, value in enumerate(values[:3]):
        best = update_best(config, best, value, step)
        ended.append(should_stop(config, best))

    assert ended == [False, False, True]
    assert best == Best(config.metric, values[2], 2, 0)
    assert not should_stop(EarlyStopConfig(metric="b/loss", target=values[2]), best)

    worse = update_best(config, update_best(config, None, math.nan, 0), values[3], 1)

    assert not should_stop(config, worse)
    assert not should_stop(EarlyStopConfig(metric=config.metric), best)


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


@pytest.mark.parametrize("dataset", ["de", "mean"])
def test_every_metric_of_a_head_is_known_before_the_first_step_with_its_direction(dataset):
    for name, rises in KNOWN.items():
        check(f"{dataset}/{name}", "de")
        assert EarlyStopConfig(metric=f"{dataset}/{name}").higher == rises, name


@pytest.mark.parametrize(
    ("metric", "near"),
    [
        ("loss", None),
        ("de/los", "de/loss"),
        ("de/figures/token/acuracy", "de/figures/token/accuracy"),
        ("de/figures/classification/exit_3", "de/figures/classification/exit_2"),
        ("de/figures/token/replaced", None),
        ("", None),
    ],
)
def test_a_metric_that_no_evaluation_has_or_nobody_judges_is_refused(metric, near):
    with pytest.raises(ConfigurationError) as caught:
        check(metric, "de")

    assert "expected one of de/loss, de/losses/masked_lm, de/losses/token, " in str(caught.value)
    assert near is None or str(caught.value).endswith(f"got {metric!r}; did you mean {near!r}?")
