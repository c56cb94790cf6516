"""Baselines for multiple choice: the most frequent index, and linear models that score each choice by itself."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.tools.runs.evaluation.baselines import Texts, baseline_predictions, texts_of
from clozeline.train.data.stream.head_features import rows_of_choices

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
    split, chosen = rows_of_choices(rows.columns)
    ids = split["input_ids"]
    assert isinstance(ids, Ragged)
    return texts_of(Rows({}, {"input_ids": ids}), tokenizer), chosen["choices"].numpy()
