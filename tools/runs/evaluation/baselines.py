"""Baselines without the model: the most frequent answer, bags of words, and the overlap of two texts."""

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
    texts: Texts
    answers: NDArray[Any]


def texts_of(rows: Rows, tokenizer: Tokenizer) -> Texts:
    """Return the one or two texts of each row, as truncated by `max_length`: what the model sees."""
    return [tuple(tokenizer.decode(part).strip() for part in parts) for parts in parts_of(rows, tokenizer)]


def parts_of(rows: Rows, tokenizer: Tokenizer) -> list[list[list[int]]]:
    """Return the ids of each row's texts, without special tokens; empty texts are dropped."""
    frame = {token for role, token in tokenizer.vocabulary.specials.items() if role != "unk"}
    parts_by_row = []
    for row in range(len(rows)):
        parts: list[list[int]] = [[]]
        for token in rows.columns["input_ids"][row].tolist():
            if token not in frame:
                parts[-1].append(token)
            elif parts[-1]:
                parts.append([])
        parts_by_row.append([part for part in parts if part])
    return parts_by_row


def _predict_majority(train: _Part, texts: Texts, facts: TaskFacts) -> NDArray[Any]:
    """Predict the most frequent class, the first among ties, or the mean number."""
    if facts.head == "regression":
        return np.full(len(texts), train.answers.mean())
    return np.full(len(texts), np.bincount(train.answers, minlength=len(facts.labels)).argmax())


def _fit_words(train: _Part, texts: Texts, facts: TaskFacts) -> NDArray[Any]:
    """Fit a linear model on TF-IDF of words and word bigrams, separately for each text."""
    columns = []
    for column in range(facts.texts):
        vectors = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", sublinear_tf=True)
        fitted = vectors.fit_transform([_text_at(item, column) for item in train.texts])
        columns.append((fitted, vectors.transform([_text_at(item, column) for item in texts])))
    fitted, test_features = (sparse.hstack(list(side)).tocsr() for side in zip(*columns, strict=True))
    return _fit_linear(facts, fitted, train.answers, test_features)


def _fit_overlap(train: _Part, texts: Texts, facts: TaskFacts) -> NDArray[Any]:
    """Fit a linear model on the words that two texts share."""
    return _fit_linear(facts, shared_words(train.texts), train.answers, shared_words(texts))


def shared_words(texts: Texts) -> NDArray[np.float64]:
    """Return how similar the words of two texts are: [n, 4], Jaccard, both containments, length difference."""
    features = []
    for item in texts:
        first, second = (set(_text_at(item, side).lower().split()) for side in (0, 1))
        shared = len(first & second)
        sizes = max(1, len(first)), max(1, len(second))
        features.append([shared / max(1, len(first | second)), shared / sizes[0], shared / sizes[1],
                         abs(sizes[0] - sizes[1]) / max(sizes)])  # fmt: skip
    return np.array(features)


def _fit_linear(facts: TaskFacts, train: Any, answers: NDArray[Any], features: Any) -> NDArray[Any]:
    if facts.head == "regression":
        return np.asarray(Ridge().fit(train, answers).predict(features))
    if len(set(answers.tolist())) < 2:
        return np.full(features.shape[0], answers[0])
    return np.asarray(LogisticRegression(max_iter=1000).fit(train, answers).predict(features))


def _text_at(item: tuple[str, ...], index: int) -> str:
    return item[index] if index < len(item) else ""


BASELINES: Final[dict[str, tuple[int, Callable[[_Part, Texts, TaskFacts], NDArray[Any]]]]] = {
    "majority": (1, _predict_majority),
    "words": (1, _fit_words),
    "overlap": (2, _fit_overlap),
}
"""Baselines by name, each with the minimum number of texts per row."""


def baseline_predictions(
    facts: TaskFacts, train: tuple[Texts, NDArray[Any]], texts: Sequence[tuple[str, ...]]
) -> dict[str, NDArray[Any]]:
    """Return the predictions of each baseline for some texts, fitted on texts and answers of the training set."""
    part = _Part(*train)
    return {name: fit(part, list(texts), facts) for name, (least, fit) in BASELINES.items() if facts.texts >= least}
