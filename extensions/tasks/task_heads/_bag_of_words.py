"""Fit a linear model on the words of texts: the baseline of tasks with classes or numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge


def fit_predict(
    train: Sequence[tuple[str, ...]],
    answers: NDArray[Any],
    texts: Sequence[tuple[str, ...]],
    sides: int = 1,
) -> NDArray[Any]:
    """Fit a model on the words of each side of texts, and return its predictions.

    Args:
        train: texts to fit the model on; a missing side counts as empty.
        answers: numbers [n] float, classes [n] integer, or 0 and 1 for each class [n, classes].
        texts: the texts to predict.
        sides: texts per row.
    """
    columns = []
    for side in range(sides):
        vectors = CountVectorizer(token_pattern=r"\S+", binary=True)
        fitted = vectors.fit_transform([_side(item, side) for item in train])
        columns.append((fitted, vectors.transform([_side(item, side) for item in texts])))
    fitted, features = (sparse.hstack(list(part)).tocsr() for part in zip(*columns, strict=True))
    if answers.ndim == 1:
        return _fit_linear(fitted, answers, features)
    return np.stack([_fit_linear(fitted, column, features) for column in answers.T], 1)


def _fit_linear(train: Any, answers: NDArray[np.generic], features: Any) -> NDArray[np.generic]:
    if answers.dtype.kind == "f":
        return np.asarray(Ridge().fit(train, answers).predict(features))
    if len(set(answers.tolist())) < 2:
        return np.full(features.shape[0], answers[0])
    return np.asarray(LogisticRegression(max_iter=1000).fit(train, answers).predict(features))


def _side(item: tuple[str, ...], side: int) -> str:
    return item[side] if side < len(item) else ""
