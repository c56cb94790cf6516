"""Metrics of rows that are judged together: questions with several answers, pairs that differ in a gender, subsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from clozeline.tools.runs.evaluation.unit_sums import Units, mean_units

Grouped: TypeAlias = Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], dict[str, Units]]


def question_units(answers: NDArray[Any], predicted: NDArray[Any], questions: NDArray[Any]) -> dict[str, Units]:
    """Return for each question the numbers of F1 over all answers, and of exact match (MultiRC, N18-1023).

    Args:
        answers: 1 for an answer that is right, [n].
        predicted: 1 for one that is held to be, [n].
        questions: key of the question of each answer, [n, bytes].

    Example:
        >>> keys = np.array([[0], [0], [1]])
        >>> question_units(np.array([1, 0, 1]), np.array([1, 1, 1]), keys)
        {'f1': [[2.0, 3.0], [2.0, 2.0]], 'exact_match': [[0.0, 1.0], [1.0, 1.0]]}
    """
    number = _numbers(questions)
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
    """Return for each pair of rows those that are right, and whether both got the same class (AX-g, arXiv 1804.09301).

    Args:
        answers: classes, [n].
        predicted: classes, [n].
        pairs: key of the pair of each row, [n, bytes]; a row without its fellow has no parity.

    Example:
        >>> keys = np.array([[0], [0], [1], [1]])
        >>> parity_units(np.array([0, 0, 1, 1]), np.array([1, 1, 1, 0]), keys)
        {'accuracy': [[0.0, 2.0], [1.0, 2.0]], 'gender_parity': [[1.0, 1.0], [0.0, 1.0]]}
    """
    number = _numbers(pairs)
    count, right = (np.bincount(number, weights=values) for values in (np.ones(len(number)), answers == predicted))
    first, last = (np.zeros(len(count), np.int64) for _ in range(2))
    first[number[::-1]], last[number] = predicted[::-1], predicted
    whole = (count == 2).astype(float)
    return {
        "accuracy": np.stack((right, count), axis=1).tolist(),
        "gender_parity": np.stack(((first == last) * whole, whole), axis=1).tolist(),
    }


def subset_units(answers: NDArray[Any], predicted: NDArray[Any], subsets: NDArray[Any]) -> dict[str, Units]:
    """Return the correlations of each subset, 0 where one side is constant: their means are what is printed.

    Args:
        answers: numbers, [n].
        predicted: numbers, [n].
        subsets: key of the subset of each row, [n, bytes].
    """
    number = _numbers(subsets)
    found: dict[str, list[float]] = {"mean_spearman": [], "mean_pearson": []}
    for subset in range(number.max() + 1):
        sides = answers[number == subset], predicted[number == subset]
        constant = any(len(side) < 2 or np.ptp(side) == 0 for side in sides)
        for name, of in (("mean_spearman", stats.spearmanr), ("mean_pearson", stats.pearsonr)):
            found[name].append(0.0 if constant else float(of(*sides).statistic))
    return {name: mean_units(values) for name, values in found.items()}


GROUPED: Final[dict[str, Grouped]] = {
    "exact_match": question_units,
    "gender_parity": parity_units,
    "mean_spearman": subset_units,
}
"""Computations of all metrics of a task, by the one that tells it."""


def _numbers(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of the group of each row."""
    _, numbers = np.unique(keys, axis=0, return_inverse=True)
    return numbers.reshape(-1)
