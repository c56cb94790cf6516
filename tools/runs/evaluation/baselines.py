"""Baselines without the model: the most frequent answer, and a linear model on bags of words."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from clozeline.arrays import Int64
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.train.data.stream.head_features import rows_of_choices

Texts: TypeAlias = list[tuple[str, ...]]


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


def _fit_linear(facts: TaskFacts, train: Any, answers: NDArray[Any], features: Any) -> NDArray[Any]:
    if facts.head == "regression":
        return np.asarray(Ridge().fit(train, answers).predict(features))
    if facts.multi_label:
        one = replace(facts, multi_label=False)
        return np.stack([_fit_linear(one, train, answers[:, index], features) for index in range(answers.shape[1])], 1)
    if len(set(answers.tolist())) < 2:
        return np.full(features.shape[0], answers[0])
    return np.asarray(LogisticRegression(max_iter=1000).fit(train, answers).predict(features))


def _text_at(item: tuple[str, ...], index: int) -> str:
    return item[index] if index < len(item) else ""


def baseline_predictions(
    facts: TaskFacts, train: tuple[Texts, NDArray[Any]], texts: Sequence[tuple[str, ...]]
) -> dict[str, NDArray[Any]]:
    """Return the predictions of each baseline for some texts, fitted on texts and answers of the training set.

    `majority` is the most frequent class, the first among ties, or each class of most rows, or the mean number; `words`
    a linear model on the words of each text.
    """
    fitted_on, answers = train
    if facts.head == "regression":
        most = answers.mean()
    elif facts.multi_label:
        most = answers.mean(0) > 0.5
    else:
        most = np.bincount(answers, minlength=len(facts.labels)).argmax()
    columns = []
    for column in range(facts.texts):
        vectors = CountVectorizer(token_pattern=r"\S+", binary=True)
        fitted = vectors.fit_transform([_text_at(item, column) for item in fitted_on])
        columns.append((fitted, vectors.transform([_text_at(item, column) for item in texts])))
    fitted, features = (sparse.hstack(list(side)).tocsr() for side in zip(*columns, strict=True))
    return {
        "majority": np.full((len(texts), *np.shape(most)), most, answers.dtype),
        "words": _fit_linear(facts, fitted, answers, features),
    }


_CORRECTNESS = TaskFacts(name="choice", head="regression", metrics=(), texts=2)


def choice_baselines(train: Rows, rows: Rows, tokenizer: Tokenizer) -> dict[str, NDArray[Any]]:
    """Return the choice of each baseline for each example, fitted on the training set.

    `majority` picks the index that is most often correct. `words` regresses to 1 for a correct and 0 for a wrong
    choice, from the words of context and choice, and picks the highest of an example.
    """
    train_pairs, counts = _context_choice_pairs(train, tokenizer)
    pairs, sizes = _context_choice_pairs(rows, tokenizer)
    right = train.columns["choice"].values.astype(np.int64)
    targets = np.zeros(len(train_pairs))
    targets[np.cumsum(counts) - counts + right] = 1.0
    predictions = baseline_predictions(_CORRECTNESS, (train_pairs, targets), pairs)
    edges = np.cumsum(sizes)[:-1]
    best = {name: np.array([part.argmax() for part in np.split(scores, edges)]) for name, scores in predictions.items()}
    return best | {"majority": np.full(len(rows), np.bincount(right).argmax())}


def _context_choice_pairs(rows: Rows, tokenizer: Tokenizer) -> tuple[Texts, Int64]:
    """Return (context, choice) for every choice of every example, and the number of choices per example."""
    split, chosen = rows_of_choices(rows.columns, {})
    ids = split["input_ids"]
    assert isinstance(ids, Ragged)
    return texts_of(Rows({}, {"input_ids": ids}), tokenizer), chosen["choices"].numpy()
