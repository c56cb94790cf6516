"""Task metrics by name, from scikit-learn and SciPy; each is a number from -1 or 0 to 1."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn import metrics

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import TaskFacts

Metric: TypeAlias = Callable[[NDArray[Any], NDArray[Any], TaskFacts], float]


@dataclass(frozen=True)
class Predictions:
    """Answers and predictions of rows, in set order: classes or numbers [n], or 0 and 1 of each class [n, classes]."""

    answers: NDArray[Any]
    predicted: NDArray[Any]


@dataclass(frozen=True)
class Scored:
    """Metrics of a model and of baselines over `count` rows, words or questions.

    `degenerate`: one side is constant, so that no correlation is defined. `signatures` are sacrebleu's.
    `unparsable` counts the generated texts that name no class or number.
    """

    count: int
    metrics: Mapping[str, float]
    baselines: Mapping[str, Mapping[str, float]]
    degenerate: bool = False
    signatures: Mapping[str, str] = field(default_factory=dict)
    unparsable: int | None = None


def _correlation_metric(of: Callable[..., Any]) -> Metric:
    """Return a correlation metric that is 0 where one side is constant."""
    return lambda answers, predicted, _: 0.0 if degenerate(answers, predicted) else float(of(answers, predicted))


METRICS: Final[dict[str, Metric]] = {
    "accuracy": lambda answers, predicted, facts: float(metrics.accuracy_score(answers, predicted)),
    "f1": lambda answers, predicted, facts: float(
        metrics.f1_score(answers, predicted, pos_label=facts.positive, zero_division=0.0)
    ),
    "macro_f1": lambda answers, predicted, facts: float(
        metrics.f1_score(answers, predicted, labels=range(len(facts.labels)), average="macro", zero_division=0.0)
    ),
    "micro_f1": lambda answers, predicted, facts: float(
        metrics.f1_score(answers, predicted, average="micro", zero_division=0.0)
    ),
    "subset_accuracy": lambda answers, predicted, facts: float((answers == predicted).all(-1).mean()),
    "matthews_correlation": _correlation_metric(metrics.matthews_corrcoef),
    "pearson": _correlation_metric(lambda *sides: stats.pearsonr(*sides).statistic),
    "spearman": _correlation_metric(lambda *sides: stats.spearmanr(*sides).statistic),
}
"""The metrics that tasks name."""


def mean(values: Iterable[float]) -> float:
    """Return the mean of numbers, 0 without any."""
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0


def degenerate(answers: NDArray[Any], predicted: NDArray[Any]) -> bool:
    """Return whether one side is constant, so that no correlation is defined."""
    return len(answers) < 2 or bool(np.ptp(answers) == 0 or np.ptp(predicted) == 0)


def score(facts: TaskFacts, answers: NDArray[Any], predicted: NDArray[Any]) -> dict[str, float]:
    """Return the task's metrics over all rows at once; averaging parts would give other numbers."""
    if unknown := [name for name in facts.metrics if name not in METRICS]:
        raise ConfigurationError(f"task {facts.name}: no metric '{unknown[0]}'; known: {', '.join(METRICS)}")
    names: Sequence[str] = facts.metrics
    return {name: METRICS[name](answers, predicted, facts) for name in names}
