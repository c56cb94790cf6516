"""Scores of answers that are judged together, as numbers of their questions (MultiRC, N18-1023)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.evaluation.unit_sums import Units

__all__ = ["question_units"]


def question_units(answers: NDArray[Any], predicted: NDArray[Any], questions: NDArray[Any]) -> dict[str, Units]:
    """Return for each question the numbers of F1 over all answers, and of exact match.

    Args:
        answers: 1 for an answer that is right, [n].
        predicted: 1 for one that is held to be, [n].
        questions: key of the question of each answer, [n, bytes].

    Example:
        >>> keys = np.array([[0], [0], [1]])
        >>> question_units(np.array([1, 0, 1]), np.array([1, 1, 1]), keys)
        {'f1': [[2.0, 3.0], [2.0, 2.0]], 'exact_match': [[0.0, 1.0], [1.0, 1.0]]}
    """
    _, number = np.unique(questions, axis=0, return_inverse=True)
    number = number.reshape(-1)
    shared, either, wrong = (
        np.bincount(number, weights=values)
        for values in (2.0 * (answers & predicted), answers + predicted, answers != predicted)
    )
    exact = (wrong == 0).astype(float)
    return {
        "f1": np.stack((shared, either), axis=1).tolist(),
        "exact_match": np.stack((exact, np.ones_like(exact)), axis=1).tolist(),
    }
