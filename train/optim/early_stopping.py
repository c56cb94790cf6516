"""Early stopping: end a run when a held-out metric stops improving, or reaches a target."""

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass as plain_dataclass
from statistics import fmean
from typing import Any, Final

from clozeline.configuration.config import Positive, config_class
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.head import HeadOptions
from clozeline.model.registries import HEADS

MEAN: Final = "mean"
"""Name, in metrics, of the mean over the held-out sets; a set of this name comes first."""


@config_class
class EarlyStopConfig:
    """Metric, patience and target of early stopping."""

    metric: str
    """metric of a held-out set: heldout/loss, heldout/losses/masked_lm,
    dev/figures/classification/accuracy; mean/loss is the mean over all held-out sets, for example
    one per language. A loss is to fall, and an accuracy to rise"""
    patience: Positive = 3
    """evaluations in a row without improvement after which the run ends"""
    target: float | None = None
    """end the run at this value or a better one; null: none"""

    @property
    def higher(self) -> bool:
        """Whether higher values are better, as the head of a figure says; a loss is to fall."""
        _, _, rest = self.metric.partition("/")
        group, _, inside = rest.partition("/")
        head, _, name = inside.partition("/")
        return group == "figures" and HEADS.load_class(head).figures.get(name) == "higher"

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
    config: EarlyStopConfig, sets: Iterable[str], heads: Mapping[str, HeadOptions], layers: int
) -> None:
    """Check that evaluations of a model with `layers` layers will have the metric."""
    # what each set has, and which of it is better or worse
    names = ["loss", *(f"losses/{head}" for head in heads)]
    for head, options in heads.items():
        figures = HEADS.load_class(head).figures.items()
        judged = [name for name, better in figures if better is not None]
        added = (name for key in options.parts() for name in key.figures(layers))
        names += [f"figures/{head}/{name}" for name in (*judged, *added)]

    known = [f"{dataset}/{name}" for dataset in (*sets, MEAN) for name in names]
    if config.metric not in known:
        near = difflib.get_close_matches(config.metric, known, n=1)
        raise ConfigurationError(
            f"early_stop.metric: expected one of {', '.join(known)}, got {config.metric!r}"
            + (f"; did you mean {near[0]!r}?" if near else "")
        )


def metric_value(evaluations: Mapping[str, Any], metric: str) -> float:
    """Return a metric that `check_metric` has passed from an evaluation of each set."""
    name, _, rest = metric.partition("/")
    if name == MEAN and name not in evaluations:
        return fmean(metric_value(evaluations, f"{dataset}/{rest}") for dataset in evaluations)
    group, _, inside = rest.partition("/")
    evaluation = evaluations[name]
    if rest == "loss":
        return float(evaluation.loss)
    return float(getattr(evaluation, group)[inside])


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
