"""Metrics of rows that are scored together: questions with several answers, gender pairs."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.tools.runs.evaluation.unit_sums import Units

Grouped: TypeAlias = Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], dict[str, Units]]


def question_units(answers: NDArray[Any], predicted: NDArray[Any], questions: NDArray[Any]) -> dict[str, Units]:
    """Return per question the counts for F1 over all answers and for exact match (MultiRC, N18-1023).

    `answers` and `predicted` [n] are 1 for a correct answer; `questions` [n, bytes] is the key of each answer's
    question.

    Example:
        >>> keys = np.array([[0], [0], [1]])
        >>> question_units(np.array([1, 0, 1]), np.array([1, 1, 1]), keys)
        {'f1': [[2.0, 3.0], [2.0, 2.0]], 'exact_match': [[0.0, 1.0], [1.0, 1.0]]}
    """
    number = _group_indices(questions)
    shared, either, wrong = (
        np.bincount(number, weights=values)
        for values in (2.0 * (answers & predicted), answers + predicted, answers != predicted)
    )
    exact = (wrong == 0).astype(float)
    return {
        "f1": np.stack((shared, either), axis=1).tolist(),
        "exact_match": np.stack((exact, np.ones_like(exact)), axis=1).tolist(),
    }


def parity_units(answers: NDArray[Any], predicted: NDArray[Any], pairs: NDArray[Any]) -> dict[str, Units]:
    """Return per pair of rows how many are correct, and whether both got the same class (AX-g, arXiv 1804.09301).

    `answers` and `predicted` [n] are classes; `pairs` [n, bytes] is the key of each row's pair. A row without a partner
    has no parity.

    Example:
        >>> keys = np.array([[0], [0], [1], [1]])
        >>> parity_units(np.array([0, 0, 1, 1]), np.array([1, 1, 1, 0]), keys)
        {'accuracy': [[0.0, 2.0], [1.0, 2.0]], 'gender_parity': [[1.0, 1.0], [0.0, 1.0]]}
    """
    number = _group_indices(pairs)
    count, correct = (np.bincount(number, weights=values) for values in (np.ones(len(number)), answers == predicted))
    first, last = (np.zeros(len(count), np.int64) for _ in range(2))
    first[number[::-1]], last[number] = predicted[::-1], predicted
    is_pair = (count == 2).astype(float)
    return {
        "accuracy": np.stack((correct, count), axis=1).tolist(),
        "gender_parity": np.stack(((first == last) * is_pair, is_pair), axis=1).tolist(),
    }


GROUPED: Final[dict[str, Grouped]] = {"exact_match": question_units, "gender_parity": parity_units}
"""Functions that compute all metrics of a task, by the metric that identifies it."""


def _group_indices(keys: NDArray[Any]) -> NDArray[np.int64]:
    _, numbers = np.unique(keys, axis=0, return_inverse=True)
    return numbers.reshape(-1)
