"""Task metrics by name, from scikit-learn and SciPy, each from -1 or 0 to 1."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn import metrics

from clozeline.errors import ConfigurationError
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.tasks.readers import TaskMetadata

Metric: TypeAlias = Callable[[NDArray[np.generic], NDArray[np.generic], TaskMetadata], float]


def _mean(values: NDArray[Any]) -> float:
    """Return the mean; 0 without values."""
    return float(values.mean()) if values.size else 0.0


def _correlation_metric(of: Callable[..., Any]) -> Metric:
    """Return a correlation metric that is 0 if one side is constant."""
    return lambda answers, predicted, _: (
        0.0 if degenerate(answers, predicted) else float(of(answers, predicted))
    )


def macro_f1(answers: NDArray[np.generic], predicted: NDArray[np.generic]) -> float:
    """Return the mean F1 of the classes that occur in answers or predictions.

    `answers` and `predicted` are classes [n], or 0 and 1 for each class [n, classes], where a class
    without a 1 does not occur.

    Example:
        >>> macro_f1(np.array([0, 1, 1]), np.array([0, 1, 1]))
        1.0
        >>> macro_f1(np.array([0, 0]), np.array([0, 2]))
        0.3333333333333333
    """
    if np.ndim(answers) == 1:
        return float(metrics.f1_score(answers, predicted, average="macro", zero_division=0.0))
    by_class = metrics.f1_score(answers, predicted, average=None, zero_division=0.0)
    return _mean(by_class[(answers.any(0) | predicted.any(0))])


METRICS: Final[dict[str, Metric]] = {
    "accuracy": lambda answers, predicted, metadata: float(
        metrics.accuracy_score(answers, predicted)
    ),
    "f1": lambda answers, predicted, metadata: float(
        metrics.f1_score(answers, predicted, pos_label=metadata.positive, zero_division=0.0)
    ),
    "macro_f1": lambda answers, predicted, metadata: macro_f1(answers, predicted),
    "micro_f1": lambda answers, predicted, metadata: float(
        metrics.f1_score(answers, predicted, average="micro", zero_division=0.0)
    ),
    "subset_accuracy": lambda answers, predicted, metadata: float(
        (answers == predicted).all(-1).mean()
    ),
    "matthews_correlation": _correlation_metric(metrics.matthews_corrcoef),
    "pearson": _correlation_metric(lambda *sides: stats.pearsonr(*sides).statistic),
    "spearman": _correlation_metric(lambda *sides: stats.spearmanr(*sides).statistic),
}
"""The metrics that tasks name."""


def degenerate(answers: NDArray[np.generic], predicted: NDArray[np.generic]) -> bool:
    """Return whether one side is constant: no correlation is defined."""
    return len(answers) < 2 or bool(np.ptp(answers) == 0 or np.ptp(predicted) == 0)


def score(
    metadata: TaskMetadata, answers: NDArray[np.generic], predicted: NDArray[np.generic]
) -> dict[str, float]:
    """Return the task's metrics over all rows at once; averaging parts would give other numbers."""
    if unknown := [name for name in metadata.metrics if name not in METRICS]:
        raise ConfigurationError(
            f"task {metadata.name}: no metric '{unknown[0]}'; known: {', '.join(METRICS)}"
        )
    return {name: METRICS[name](answers, predicted, metadata) for name in metadata.metrics}


def score_rows(
    metadata: TaskMetadata,
    answers: NDArray[np.generic],
    predicted: NDArray[np.generic],
    rows: RowBatch,
) -> dict[str, float]:
    """Return the task's metrics; some tasks score all rows of a document together."""
    grouped = next(
        (_GROUPED_METRICS[name] for name in metadata.metrics if name in _GROUPED_METRICS), None
    )
    if grouped is None:
        return score(metadata, answers, predicted)
    return grouped(answers, predicted, rows.fixed["document_uid"])


def question_scores(
    answers: NDArray[Any], predicted: NDArray[Any], questions: NDArray[Any]
) -> dict[str, float]:
    """Return F1 over all answers, and the share of fully correct questions (MultiRC, N18-1023).

    `answers` and `predicted` [n] are 1 for a correct answer; `questions` [n, bytes] is the key of
    each answer's question.

    Example:
        >>> keys = np.array([[0], [0], [1]])
        >>> question_scores(np.array([1, 0, 1]), np.array([1, 1, 1]), keys)
        {'f1': 0.8, 'exact_match': 0.5}
    """
    shared = 2.0 * float((answers & predicted).sum())
    either = float((answers + predicted).sum())
    wrong = np.bincount(_group_indices(questions), weights=answers != predicted)
    return {"f1": shared / either if either else 0.0, "exact_match": _mean(wrong == 0)}


def parity_scores(
    answers: NDArray[np.generic], predicted: NDArray[np.generic], pairs: NDArray[np.generic]
) -> dict[str, float]:
    """Return the share of correct rows, and of pairs with equal predictions.

    This is the gender parity of AX-g (arXiv 1804.09301).
    `answers` and `predicted` [n] are classes; `pairs` [n, bytes] is the key of each row's pair. A
    row without a partner has no parity.

    Example:
        >>> keys = np.array([[0], [0], [1], [1]])
        >>> parity_scores(np.array([0, 0, 1, 1]), np.array([1, 1, 1, 0]), keys)
        {'accuracy': 0.25, 'gender_parity': 0.5}
    """
    number = _group_indices(pairs)
    count = np.bincount(number)
    first, last = (np.zeros(len(count), np.int64) for _ in range(2))
    first[number[::-1]] = predicted[::-1]
    last[number] = predicted
    is_equal_pair = (first == last)[count == 2]
    return {"accuracy": _mean(answers == predicted), "gender_parity": _mean(is_equal_pair)}


_GROUPED_METRICS: Final = {"exact_match": question_scores, "gender_parity": parity_scores}
"""Functions that compute all metrics of a task, by the metric that identifies it."""


def _group_indices(keys: NDArray[Any]) -> NDArray[np.int64]:
    _, numbers = np.unique(keys, axis=0, return_inverse=True)
    return numbers.reshape(-1)
