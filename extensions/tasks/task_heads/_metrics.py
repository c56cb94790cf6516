"""Metrics of classes and numbers by name, from scikit-learn and SciPy.

These are imported where they are used: training does not need them.
"""

from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.task_heads._task_head import Judged, Metric

_LEAST: Final = float(np.finfo(np.float32).tiny)
"""Probability that a loss counts for one that is rounded to 0."""


def _mean(values: NDArray[Any]) -> float:
    """Return the mean; 0 without values."""
    return float(values.mean()) if values.size else 0.0


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
    from sklearn.metrics import f1_score

    if np.ndim(answers) == 1:
        return float(f1_score(answers, predicted, average="macro", zero_division=0.0))
    by_class = f1_score(answers, predicted, average=None, zero_division=0.0)
    return _mean(by_class[(answers.any(0) | predicted.any(0))])


def degenerate(answers: NDArray[np.generic], predicted: NDArray[np.generic]) -> bool:
    """Return whether one side is constant: no correlation is defined."""
    return len(answers) < 2 or bool(np.ptp(answers) == 0 or np.ptp(predicted) == 0)


def _correlation(module: str, name: str) -> Metric:
    """Return the correlation of a library, which is 0 if one side is constant."""

    def compute(judged: Judged) -> float:
        sides = judged.gold, judged.guesses
        if degenerate(*sides):
            return 0.0
        found = getattr(import_module(module), name)(*sides)
        return float(getattr(found, "statistic", found))

    return Metric(compute)


def right_questions(judged: Judged) -> float:
    """Return the share of questions whose answers are all judged right (MultiRC, N18-1023).

    The answers of a question have one document.
    """
    wrong = judged.gold != judged.guesses
    return _mean(np.bincount(_group_indices(judged.documents), weights=wrong) == 0)


def equal_pairs(judged: Judged) -> float:
    """Return the share of pairs with equal guesses, the gender parity of AX-g (arXiv 1804.09301).

    The rows of a pair have one document; a row without a partner does not count.
    """
    number = _group_indices(judged.documents)
    count = np.bincount(number)
    first, last = (np.zeros(len(count), np.int64) for _ in range(2))
    first[number[::-1]] = judged.guesses[::-1]
    last[number] = judged.guesses
    return _mean((first == last)[count == 2])


def log_loss(judged: Judged) -> float:
    """Return the mean of -ln of the probability of the correct class or choice."""
    pairs = zip(judged.predictions, judged.gold, strict=True)
    return _mean(-np.log([max(chances[answer], _LEAST) for chances, answer in pairs]))


def _group_indices(keys: NDArray[Any]) -> NDArray[np.int64]:
    _, numbers = np.unique(keys, axis=0, return_inverse=True)
    return numbers.reshape(-1)


def positive_f1(judged: Judged) -> float:
    """Return the F1 of the task's positive class."""
    positive = judged.metadata.positive
    if positive is None:
        raise ConfigurationError(
            f"metrics: f1 is of the positive class, and the task {judged.metadata.name} has none: "
            "use macro_f1"
        )
    return _f1(judged, pos_label=positive)


def _f1(judged: Judged, **keys: Any) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(judged.gold, judged.guesses, zero_division=0.0, **keys))


RETRIEVAL_METRICS: Final = {
    "accuracy": Metric(lambda judged: _mean(judged.gold == judged.guesses)),
}
CHOICE_METRICS: Final = {
    **RETRIEVAL_METRICS,
    "log_loss": Metric(log_loss, "lower", of_model=True),
}
_F1_METRICS: Final = {
    "macro_f1": Metric(lambda judged: macro_f1(judged.gold, judged.guesses)),
    "micro_f1": Metric(lambda judged: _f1(judged, average="micro")),
}
CLASS_METRICS: Final = {
    **CHOICE_METRICS,
    **_F1_METRICS,
    "f1": Metric(positive_f1),
    "matthews_correlation": _correlation("sklearn.metrics", "matthews_corrcoef"),
    "exact_match": Metric(right_questions),
    "gender_parity": Metric(equal_pairs),
}
"""Of rows with one class; choices have the first two."""
SEVERAL_METRICS: Final = {
    **_F1_METRICS,
    "subset_accuracy": Metric(lambda judged: _mean((judged.gold == judged.guesses).all(-1))),
}
"""Of rows with any number of classes."""
NUMBER_METRICS: Final = {
    "pearson": _correlation("scipy.stats", "pearsonr"),
    "spearman": _correlation("scipy.stats", "spearmanr"),
}
