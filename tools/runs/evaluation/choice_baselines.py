"""Baselines of multiple choice: the most frequent number, and linear models that score each choice by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.tools.runs.evaluation.baselines import Texts, baseline_predictions, texts_of
from clozeline.train.data.stream.head_features import rows_of_choices

_RIGHT_OR_WRONG = TaskFacts(name="choice", head="regression", metrics=(), texts=2)


def choice_baselines(train: Rows, rows: Rows, tokenizer: Tokenizer) -> dict[str, NDArray[Any]]:
    """Return the choice that each baseline takes for each example, learnt from the training set.

    `majority` takes the number that is right most often. `words` and `overlap` are fitted to 1 for a right choice and 0
    for a wrong one, from its words and from those that it shares with the context; they take the highest of an example.

    Args:
        train: rows of the training set.
        rows: of the set.
        tokenizer: of both.
    """
    learnt, counts = _pairs(train, tokenizer)
    given, sizes = _pairs(rows, tokenizer)
    right = train.columns["choice"].values.astype(np.int64)
    marks = np.zeros(len(learnt))
    marks[np.cumsum(counts) - counts + right] = 1.0
    found = baseline_predictions(_RIGHT_OR_WRONG, (learnt, marks), given)
    edges = np.cumsum(sizes)[:-1]
    best = {
        name: np.array([part.argmax() for part in np.split(scores, edges)])
        for name, scores in found.items()
        if name != "majority"
    }
    return {"majority": np.full(len(rows), np.bincount(right).argmax()), **best}


def _pairs(rows: Rows, tokenizer: Tokenizer) -> tuple[Texts, Int64]:
    """Return context and choice of every choice of every example, and the number of choices of each example."""
    split, chosen = rows_of_choices(rows.columns)
    ids = split["input_ids"]
    assert isinstance(ids, Ragged)
    return texts_of(Rows({}, {"input_ids": ids}), tokenizer), chosen["choices"].numpy()
