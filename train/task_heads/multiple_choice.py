"""Choose among several texts, and score the choices."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clozeline.arrays import Int64
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.train.data.stream.head_features import rows_of_choices
from clozeline.train.task_heads._metrics import CHOICE_METRICS
from clozeline.train.task_heads._task_head import (
    Record,
    RowTaskHead,
    TaskModel,
    finite,
    rounded,
    texts_of,
)


class MultipleChoiceTaskHead(RowTaskHead):
    """Predicts the probabilities of the choices of an example.

    Each choice is a row of the batch: see `rows_of_choices`.
    """

    unit = "questions"
    layout = None
    metrics = CHOICE_METRICS

    def read(
        self, scores: Tensor, tensors: Mapping[str, Tensor], rows: RowBatch
    ) -> Sequence[object]:
        # choices that an example lacks have the score -inf
        counts = tensors["choices"].tolist()
        pairs = zip(scores, counts, strict=True)
        return [finite(row[:count]).softmax(0).tolist() for row, count in pairs]

    def values(self, predicted: Mapping[int, Any]) -> NDArray[Any]:
        return np.array([np.argmax(predicted[row]) for row in range(len(predicted))], np.int64)

    def answers(self, rows: RowBatch) -> NDArray[Any]:
        """Return the index of the correct choice of each example [n] int64."""
        return rows.columns["choice"].values.astype(np.int64)

    def fields(self) -> dict[str, type]:
        return {"choice": int, "probabilities": list[float]}

    def record(self, prediction: Any) -> Record:
        return {
            "choice": prediction.index(max(prediction)),
            "probabilities": list(map(rounded, prediction)),
        }

    def error(self, gold: object, record: Record) -> float:
        """Return one minus the probability of the correct choice if another one is chosen."""
        return 0.0 if record["choice"] == gold else 1 - float(record["probabilities"][gold])

    def majority(self, answers: NDArray[Any]) -> Any:
        return np.bincount(answers).argmax()

    def baselines(
        self, task: TaskModel, train: RowBatch, rows: RowBatch
    ) -> dict[str, NDArray[Any]]:
        """Return `majority`, the index that is most often correct, and `words`.

        `words` regresses 1 for a correct and 0 for a wrong choice on the words of context and
        choice, and takes the highest choice.
        """
        from clozeline.train.task_heads._bag_of_words import fit_predict

        train_pairs, counts = _context_choice_pairs(train, task.tokenizer)
        pairs, sizes = _context_choice_pairs(rows, task.tokenizer)
        right = self.answers(train)
        targets = np.zeros(len(train_pairs))
        targets[np.cumsum(counts) - counts + right] = 1.0
        parts = np.split(fit_predict(train_pairs, targets, pairs, sides=2), np.cumsum(sizes)[:-1])
        words = np.array([part.argmax() for part in parts])
        return {"majority": np.full(len(rows), self.majority(right)), "words": words}


def _context_choice_pairs(
    rows: RowBatch, tokenizer: Tokenizer
) -> tuple[list[tuple[str, ...]], Int64]:
    """Return (context, choice) for every choice, and the number of choices of each example."""
    split, chosen = rows_of_choices(rows.columns, {})
    ids = split["input_ids"]
    assert isinstance(ids, Ragged)
    return texts_of(RowBatch({}, {"input_ids": ids}), tokenizer), chosen["choices"].numpy()
