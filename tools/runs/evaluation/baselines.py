"""Baselines that know nothing of a model: the most frequent answer, bags of words, and the overlap of two texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from clozeline.pipeline.rows import Rows
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tokenize.tokenizers import Tokenizer

Texts: TypeAlias = list[tuple[str, ...]]


@dataclass(frozen=True)
class _Part:
    """Texts and answers of one split."""

    texts: Texts
    answers: NDArray[Any]


def texts_of(rows: Rows, tokenizer: Tokenizer) -> Texts:
    """Return the one or two texts of each row, as far as `max_length` has kept them: what the model sees."""
    return [tuple(tokenizer.decode(part).strip() for part in parts) for parts in parts_of(rows, tokenizer)]


def parts_of(rows: Rows, tokenizer: Tokenizer) -> list[list[list[int]]]:
    """Return the ids of the texts of each row, without those of the frame; an empty text is left out."""
    frame = {token for role, token in tokenizer.vocabulary.specials.items() if role != "unk"}
    found = []
    for row in range(len(rows)):
        parts: list[list[int]] = [[]]
        for token in rows.columns["input_ids"][row].tolist():
            if token not in frame:
                parts[-1].append(token)
            elif parts[-1]:
                parts.append([])
        found.append([part for part in parts if part])
    return found


def _majority(train: _Part, texts: Texts, facts: TaskFacts) -> NDArray[Any]:
    """Give the most frequent class, the first of equally frequent ones, or the mean number."""
    if facts.head == "regression":
        return np.full(len(texts), train.answers.mean())
    return np.full(len(texts), np.bincount(train.answers, minlength=len(facts.labels)).argmax())


def _words(train: _Part, texts: Texts, facts: TaskFacts) -> NDArray[Any]:
    """Fit a linear model on TF-IDF of words and pairs of words, those of each text apart."""
    columns = []
    for place in range(facts.texts):
        vectors = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", sublinear_tf=True)
        fitted = vectors.fit_transform([_text(item, place) for item in train.texts])
        columns.append((fitted, vectors.transform([_text(item, place) for item in texts])))
    fitted, given = (sparse.hstack(list(side)).tocsr() for side in zip(*columns, strict=True))
    return _linear(facts, fitted, train.answers, given)


def _overlap(train: _Part, texts: Texts, facts: TaskFacts) -> NDArray[Any]:
    """Fit a linear model on the words that two texts share: Jaccard, both containments, difference of lengths."""
    return _linear(facts, shared_words(train.texts), train.answers, shared_words(texts))


def shared_words(texts: Texts) -> NDArray[np.float64]:
    """Return how much the words of two texts have in common: [n, 4], Jaccard, both containments, lengths."""
    features = []
    for item in texts:
        first, second = (set(_text(item, place).lower().split()) for place in (0, 1))
        shared = len(first & second)
        sizes = max(1, len(first)), max(1, len(second))
        features.append([shared / max(1, len(first | second)), shared / sizes[0], shared / sizes[1],
                         abs(sizes[0] - sizes[1]) / max(sizes)])  # fmt: skip
    return np.array(features)


def _linear(facts: TaskFacts, train: Any, answers: NDArray[Any], given: Any) -> NDArray[Any]:
    if facts.head == "regression":
        return np.asarray(Ridge().fit(train, answers).predict(given))
    if len(set(answers.tolist())) < 2:
        return np.full(given.shape[0], answers[0])
    return np.asarray(LogisticRegression(max_iter=1000).fit(train, answers).predict(given))


def _text(item: tuple[str, ...], place: int) -> str:
    return item[place] if place < len(item) else ""


BASELINES: Final[dict[str, tuple[int, Callable[[_Part, Texts, TaskFacts], NDArray[Any]]]]] = {
    "majority": (1, _majority),
    "words": (1, _words),
    "overlap": (2, _overlap),
}
"""Baselines by name, each with the fewest texts of a row that it needs."""


def baseline_predictions(
    facts: TaskFacts, train: tuple[Texts, NDArray[Any]], texts: Sequence[tuple[str, ...]]
) -> dict[str, NDArray[Any]]:
    """Return what each baseline predicts for some rows, learnt from those of the training set.

    Args:
        facts: of the task.
        train: texts and answers of the training set.
        texts: of the rows to predict.
    """
    part = _Part(*train)
    return {name: fit(part, list(texts), facts) for name, (least, fit) in BASELINES.items() if facts.texts >= least}
