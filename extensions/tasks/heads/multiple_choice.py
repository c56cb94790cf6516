"""Choice among several texts, such as endings of a story (SWAG, arXiv 1808.05326)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clozeline.arrays import Int64
from clozeline.columns import CHOICES, IGNORED, LENGTHS, BatchField
from clozeline.extensions.tasks.task_heads._metrics import CHOICE_METRICS
from clozeline.extensions.tasks.task_heads._task_head import (
    Record,
    RowTaskHead,
    TaskModel,
    finite,
    rounded,
    texts_of,
)
from clozeline.model.heads._head import RowHead
from clozeline.model.loss import cross_entropy_sum, row_labels, rows_of_examples
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.train.data.stream.head_features import rows_of_choices


class MultipleChoiceHead(RowHead):
    """Cross entropy over the choices of an example; each choice is a row with one score.

    The rows [N, T] of `input_ids` are those of the first example in order, then those of the
    second, and so on. `choices` [B] is the number of rows of each example; `label` [B] is the
    index of the correct choice, -100 for none; `row_weight` is [B].

    Example (2 choices and 3):
        rows      a0 a1 b0 b1 b2
        scores    [[a0, a1, -inf], [b0, b1, b2]]
    """

    target: ClassVar = "multiple_choice"
    label = "label"
    figures: ClassVar = {"accuracy": "higher"}
    class_ending: ClassVar = "ForMultipleChoice"
    reads: ClassVar = (
        BatchField("label", "row", filler=IGNORED, below="choices"),
        CHOICES,
        LENGTHS,
    )

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        return cross_entropy_sum(self.scores(hidden, tensors), row_labels(tensors))

    def scores(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the scores of choices, [N, T, dim] to [B, most choices], -inf where missing."""
        scores = super().scores(hidden, tensors).squeeze(-1)
        rows = rows_of_examples(tensors).to(scores.device)
        return scores[rows.clamp(min=0)].masked_fill(rows < 0, -torch.inf)

    def join(self, vectors: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        return vectors

    def metrics(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the number of examples whose correct choice has the highest score."""
        return {"accuracy": (self.scores(hidden, tensors).argmax(-1) == row_labels(tensors)).sum()}


class MultipleChoiceTaskHead(RowTaskHead):
    """Predicts the probabilities of the choices of an example.

    Each choice is a row of the batch: see `rows_of_choices`.
    """

    of_head = "multiple_choice"
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
        from clozeline.extensions.tasks.task_heads._bag_of_words import fit_predict

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
