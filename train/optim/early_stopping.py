"""Early stopping: end a run when a held-out metric stops improving, or reaches a target."""

import math
from collections.abc import Mapping
from dataclasses import dataclass as plain_dataclass
from statistics import fmean
from typing import Annotated, Any, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError

MEAN: Final = "mean"
"""Name, in metrics, of the mean over the held-out sets; a set of this name comes first."""


@config_class
class EarlyStopConfig:
    """Metric, patience and target of early stopping."""

    metric: str
    """metric of a held-out set: heldout/loss, heldout/losses/masked_lm,
    dev/figures/classification/accuracy; mean/loss is the mean over all held-out sets, for example
    one per language"""
    patience: Annotated[int, Field(ge=1)] = 3
    """evaluations in a row without improvement after which the run ends"""
    higher: bool = False
    """higher values are better, as for accuracy"""
    target: float | None = None
    """end the run at this value or a better one; null: none"""

    def meets_target(self, value: float | None) -> bool:
        """Return whether a value is the target or better."""
        if self.target is None or value is None:
            return False
        return value >= self.target if self.higher else value <= self.target


@plain_dataclass(frozen=True)
class Best:
    """The best value of a metric so far."""

    metric: str
    value: float | None
    """None before the first finite value"""
    step: int
    """step of the best value"""
    evaluations: int
    """evaluations since then"""


def check_metric(
    config: EarlyStopConfig, sets: Mapping[str, object], heads: Mapping[str, object]
) -> None:
    """Check before the first step that evaluations will have the metric.

    Names of `figures` are known to the first evaluation only, which `metric_value` checks.
    """
    name, _, rest = config.metric.partition("/")
    group, _, inside = rest.partition("/")
    known = rest == "loss" or (group in ("losses", "figures") and inside.partition("/")[0] in heads)
    if known and (name in sets or (name == MEAN and sets)):
        return
    listed = [f"{dataset}/loss" for dataset in (*sets, *([MEAN] if sets else []))]
    listed += [f"{dataset}/losses/{head}" for dataset in sets for head in heads]
    raise ConfigurationError(
        "early_stop.metric: expected one of "
        f"{', '.join(listed) or 'a held-out set, but there is no held-out set'}, or "
        f"SET/figures/HEAD/NAME, got {config.metric!r}"
    )


def metric_value(evaluations: Mapping[str, Any], metric: str) -> float:
    """Return a metric of an evaluation of each set."""
    name, _, rest = metric.partition("/")
    if name == MEAN and name not in evaluations:
        return fmean(metric_value(evaluations, f"{dataset}/{rest}") for dataset in evaluations)
    group, _, inside = rest.partition("/")
    evaluation = evaluations[name]
    if rest == "loss":
        return float(evaluation.loss)
    values: Mapping[str, float] = getattr(evaluation, group)
    if inside not in values:
        listed = ", ".join(f"{name}/{group}/{value}" for value in values) or "none"
        raise ConfigurationError(f"early_stop.metric: expected one of {listed}, got {metric!r}")

    return float(values[inside])


def update_best(config: EarlyStopConfig, best: Best | None, value: float, step: int) -> Best:
    """Return the best value after another evaluation; a value that is not finite is never better.

    Example: with patience 2, the losses 3, 2, 2, nan end the run: the last two do not improve on
    the second.
    """
    if best is None or best.metric != config.metric:
        best = Best(config.metric, None, step, -1)
    sign = -1.0 if config.higher else 1.0
    better = math.isfinite(value) and (
        best.value is None or sign * (best.value - value) > 0.0 or config.meets_target(value)
    )
    if better:
        return Best(config.metric, value, step, 0)
    return Best(best.metric, best.value, best.step, best.evaluations + 1)


def should_stop(config: EarlyStopConfig | None, best: Best | None) -> bool:
    """Return whether the run has reached its target or used up its patience."""
    if config is None or best is None or best.metric != config.metric:
        return False
    return config.meets_target(best.value) or best.evaluations >= config.patience
