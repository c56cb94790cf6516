"""Metrics of rows that are scored together: the answers of a question, and the two rows of a pair."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.tools.runs.evaluation.metrics import mean

Grouped: TypeAlias = Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], dict[str, float]]


def question_scores(answers: NDArray[Any], predicted: NDArray[Any], questions: NDArray[Any]) -> dict[str, float]:
    """Return F1 over all answers, and the share of questions with all answers right (MultiRC, N18-1023).

    `answers` and `predicted` [n] are 1 for a correct answer; `questions` [n, bytes] is the key of each answer's
    question.

    Example:
        >>> keys = np.array([[0], [0], [1]])
        >>> question_scores(np.array([1, 0, 1]), np.array([1, 1, 1]), keys)
        {'f1': 0.8, 'exact_match': 0.5}
    """
    shared, either = 2.0 * float((answers & predicted).sum()), float((answers + predicted).sum())
    wrong = np.bincount(_group_indices(questions), weights=answers != predicted)
    return {"f1": shared / either if either else 0.0, "exact_match": mean((wrong == 0).tolist())}


def parity_scores(answers: NDArray[Any], predicted: NDArray[Any], pairs: NDArray[Any]) -> dict[str, float]:
    """Return the share of correct rows, and of pairs whose rows got the same class (AX-g, arXiv 1804.09301).

    `answers` and `predicted` [n] are classes; `pairs` [n, bytes] is the key of each row's pair. A row without a partner
    has no parity.

    Example:
        >>> keys = np.array([[0], [0], [1], [1]])
        >>> parity_scores(np.array([0, 0, 1, 1]), np.array([1, 1, 1, 0]), keys)
        {'accuracy': 0.25, 'gender_parity': 0.5}
    """
    number = _group_indices(pairs)
    count = np.bincount(number)
    first, last = (np.zeros(len(count), np.int64) for _ in range(2))
    first[number[::-1]], last[number] = predicted[::-1], predicted
    same = (first == last)[count == 2]
    return {"accuracy": mean((answers == predicted).tolist()), "gender_parity": mean(same.tolist())}


GROUPED: Final[dict[str, Grouped]] = {"exact_match": question_scores, "gender_parity": parity_scores}
"""Functions that compute all metrics of a task, by the metric that identifies it."""


def _group_indices(keys: NDArray[Any]) -> NDArray[np.int64]:
    _, numbers = np.unique(keys, axis=0, return_inverse=True)
    return numbers.reshape(-1)
