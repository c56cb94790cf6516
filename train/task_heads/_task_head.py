"""The interface of task heads: the meaning of a head outside the model.

Training asks for the tensors that a head reads, `evaluate`, `predict` and `pseudo-label` for
predictions and scores. Libraries that compute metrics are imported where they are used: training
starts without them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clozeline.arrays import Int64
from clozeline.columns import Feature
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.model.build import Model
from clozeline.model.configuration.head import ClassOptions, HeadOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tasks.readers import (
    LabeledText,
    Rejected,
    TaskItem,
    TaskMetadata,
    TaskReader,
)
from clozeline.pipeline.tasks.task_rows import record_of
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.train.configuration.model_source import unset_head_key
from clozeline.train.data.stream.head_features import HeadBatch

Record: TypeAlias = dict[str, Any]
"""A prediction, as it is written: `{"label": "good", "probability": 0.9}`."""
_BATCH: Final = 32
"""Rows per forward pass. Batches, and thus padding, are the same for every number of processes."""
_DIGITS: Final = 6
"""Decimals of probabilities and scores: other batches change a score by some 1e-7."""


@dataclass(frozen=True)
class TaskModel:
    """A model that answers a task, and what its answers need besides the rows."""

    model: Model
    tokenizer: Tokenizer
    head: str
    manifest: Manifest
    """of the rows"""
    forward: Callable[[RowBatch], tuple[Tensor, Mapping[str, Tensor]]]
    """returns the scores of the head for some rows, and the tensors that the model read"""
    threshold: float = 0.0
    """margin by which "no answer" must win, if questions may have none"""


@dataclass(frozen=True)
class TaskScores:
    """Metrics of a model and of baselines over `count` rows, words or questions.

    `degenerate`: one side is constant, so that no correlation is defined. `signatures` are
    sacrebleu's. `unparsable` counts the generated texts that name no class or number.
    """

    count: int
    metrics: Mapping[str, float]
    baselines: Mapping[str, Mapping[str, float]]
    degenerate: bool = False
    signatures: Mapping[str, str] = field(default_factory=dict)
    unparsable: int | None = None


class HeadTensors:
    """The tensors that a head reads from columns of its own."""

    columns: ClassVar[tuple[Feature, ...]] = ()
    """columns that `tensors` reads; the others of the head become tensors of their names, as their
    roles say"""

    @staticmethod
    def tensors(batch: HeadBatch) -> dict[str, Tensor]:
        """Return the tensors of a micro-batch; rows without the columns have no label."""
        return {}


class TaskHead(HeadTensors, ABC):
    """What a head means in a task: predictions and scores of texts, sentences, questions or pairs."""

    unit: ClassVar[str] = ""
    """name of what a score counts; empty: texts, or pairs of them"""
    inputs: ClassVar[tuple[str, ...]]
    """columns of a file without answers that `predict` needs: text, words, question, context,
    choices, source"""
    optional_inputs: ClassVar[tuple[str, ...]] = ()
    layout: str | None = None
    """official layout of its predictions: glue or squad"""
    pseudo_labels: ClassVar[bool] = False
    """its predictions are classes with a probability, which `pseudo-label` selects by"""

    def __init__(self, facts: TaskMetadata) -> None:
        self.facts = facts

    @property
    def score_unit(self) -> str:
        """Name of what a score counts."""
        return self.unit or ("pairs" if self.facts.texts > 1 else "texts")

    # -- training
    # --------------------------------------------------------------------------------------------------

    def configure(self, model: ModelConfig, name: str, where: str) -> HeadOptions:
        """Return the head with what a set determines: by default its labels, if it has any.

        Raises:
            ConfigurationError: the configuration, or another set, has other labels.
        """
        head = model.heads[name]
        facts = self.facts
        key = f"model.heads.{name}"
        if not facts.labels or not isinstance(head, ClassOptions):
            return head
        if head.labels and head.labels != facts.labels:
            raise ConfigurationError(
                f"{key}.labels: expected {', '.join(facts.labels)} in this order, as {where} has, "
                f"got {', '.join(head.labels)}: an index would mean another label; train on sets "
                f"of one task, or {unset_head_key(model, name, 'labels')}"
            )
        if head.classes not in (None, len(facts.labels)):
            why = f"got {head.classes}: {unset_head_key(model, name, 'classes')}, the set says it"
            raise ConfigurationError(
                f"{key}.classes: {where} has {len(facts.labels)}: {', '.join(facts.labels)}; {why}"
            )
        return replace(head, labels=facts.labels)

    def fit(self, head: HeadOptions, training: Iterable[RowBatch]) -> HeadOptions:
        """Return the head with what the training rows determine: by default nothing."""
        return head

    def problems(self, columns: Mapping[str, Ragged]) -> Iterator[tuple[int, str]]:
        """Yield rows that break a rule of the task, each with what is wrong; roles of columns are checked before."""
        yield from ()

    # -- predictions
    # -----------------------------------------------------------------------------------------------

    def predict(
        self, task: TaskModel, rows: RowBatch, rank: int = 0, size: int = 1
    ) -> dict[int, Any]:
        """Return the prediction for each row in one process's share, by row index.

        Entire batches are distributed over the processes, so each row is computed with the same
        others for every number of processes, and only once.
        """
        predictions: dict[int, object] = {}
        with torch.no_grad():
            for batch in iterate_batches(rows, rank, size):
                part = rows.take(batch)
                predictions |= dict(
                    zip(batch.tolist(), self.read(*task.forward(part), part), strict=True)
                )
        return predictions

    def read(
        self, scores: Tensor, tensors: Mapping[str, Tensor], rows: RowBatch
    ) -> Sequence[object]:
        """Return the prediction of each row of a batch from the head's scores; plain data, for other processes.

        Raises:
            IntegrityError: a score is not finite.
        """
        raise NotImplementedError

    @abstractmethod
    def records(
        self, task: TaskModel, rows: RowBatch, predicted: Mapping[int, object]
    ) -> Iterator[tuple[int, Record]]:
        """Yield the first row and the prediction of each text, sentence or question, in order."""

    @abstractmethod
    def fields(self) -> dict[str, type]:
        """Return the fields of a record with their types, for tables."""

    def empty(self, item: TaskItem | Rejected) -> Record:
        """Return what the record of an item without tokens says, besides the reason."""
        return {}

    def certain_class(self, prediction: object) -> tuple[int | tuple[int, ...], float]:
        """Return the class or classes of a row, and the lowest probability of a decision; for `pseudo_labels`."""
        raise NotImplementedError

    # -- rows without an answer
    # ------------------------------------------------------------------------------------

    def input_keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the columns that `predict` needs, and those that it may have."""
        return self.inputs, self.optional_inputs

    def official_readers(self) -> Sequence[TaskReader]:
        """Return readers of official layouts in which any task of the head may hand in rows, the strictest first."""
        return ()

    def item(
        self, values: Mapping[str, Sequence[object]], reader: TaskReader, index: int, key: object
    ) -> TaskItem | Rejected:
        """Return the item of a row from its cells by column; its answer is an arbitrary one that nothing reads."""
        joined = {name: join_cells(cells) for name, cells in values.items()}
        if None in joined.values():
            return Rejected("fields", index)
        texts = {name: text for name, text in joined.items() if text}
        if len(texts) < len(joined):
            return Rejected("empty_text", index)
        return self.build(texts, reader, index, key)

    def build(
        self, texts: Mapping[str, str], reader: TaskReader, index: int, key: object
    ) -> TaskItem | Rejected:
        """Return the item of the texts of a row, by column."""
        raise NotImplementedError

    # -- scores
    # ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def gold(self, task: TaskModel, rows: RowBatch) -> dict[int, Record]:
        """Return `gold`, the correct answer, and `texts`, what the model read, by the first row of each record."""

    @abstractmethod
    def error(self, gold: object, record: Record) -> float:
        """Return 0 for a correct prediction, up to 1 or the distance of a number."""

    def classes(self, gold: Any, record: Record) -> Iterable[tuple[Sequence[str], Sequence[str]]]:
        """Yield gold and predicted classes of each unit of a record; nothing for answers that are no classes."""
        return ()

    def choose_threshold(
        self, rows: RowBatch, predicted: Mapping[int, object]
    ) -> tuple[float, float]:
        """Return the threshold of no answer with the best F1, and that F1; for questions that may have no answer."""
        raise NotImplementedError

    @abstractmethod
    def score(
        self, task: TaskModel, train: RowBatch, rows: RowBatch, predicted: Mapping[int, object]
    ) -> TaskScores:
        """Return the metrics of all rows of a split, next to baselines that are fitted on the training rows."""


class RowTaskHead(TaskHead):
    """A task head whose correct answers stand in a column of the set."""

    inputs: ClassVar[tuple[str, ...]] = ("text",)
    optional_inputs: ClassVar[tuple[str, ...]] = ("text_pair",)
    layout: str | None = "glue"

    def input_keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if self.facts.texts > 1:
            return (*self.inputs, "text_pair"), ()
        return super().input_keys()

    def build(
        self, texts: Mapping[str, str], reader: TaskReader, index: int, key: object
    ) -> TaskItem | Rejected:
        facts = self.facts
        return LabeledText(
            tuple(texts.values()), 0 if facts.labels and not facts.multi_label else None, 0.0, index
        )

    @abstractmethod
    def answers(self, rows: RowBatch) -> NDArray[Any]:
        """Return the answers that rows store, an entry for each."""

    @abstractmethod
    def values(self, predicted: Mapping[int, Any]) -> NDArray[Any]:
        """Return predictions in the form of `answers`."""

    @abstractmethod
    def record(self, prediction: object) -> Record:
        """Return the record of a prediction."""

    @abstractmethod
    def baselines(
        self, task: TaskModel, train: RowBatch, rows: RowBatch
    ) -> dict[str, NDArray[np.generic]]:
        """Return the predictions of each baseline."""

    def is_degenerate(self, answers: NDArray[np.generic], values: NDArray[np.generic]) -> bool:
        """Return whether the task's correlations are not defined."""
        return False

    def texts(self, rows: RowBatch, task: TaskModel) -> list[tuple[str, ...]]:
        """Return the texts of each row; of a pair in both orders those of the first."""
        texts = texts_of(rows, task.tokenizer)
        return [both[: self.facts.texts] for both in texts] if self.facts.both_orders else texts

    def show(self, answer: object) -> object:
        """Return a stored answer as a record shows it."""
        return answer

    def records(
        self, task: TaskModel, rows: RowBatch, predicted: Mapping[int, object]
    ) -> Iterator[tuple[int, Record]]:
        yield from ((row, self.record(prediction)) for row, prediction in sorted(predicted.items()))

    def gold(self, task: TaskModel, rows: RowBatch) -> dict[int, Record]:
        pairs = zip(self.texts(rows, task), self.answers(rows).tolist(), strict=True)
        return {
            row: {"texts": list(texts), "gold": self.show(answer)}
            for row, (texts, answer) in enumerate(pairs)
        }

    def score(
        self, task: TaskModel, train: RowBatch, rows: RowBatch, predicted: Mapping[int, object]
    ) -> TaskScores:
        from clozeline.train.task_heads._metrics import score_rows

        answers = self.answers(rows)
        values = self.values(predicted)
        return TaskScores(
            len(answers),
            score_rows(self.facts, answers, values, rows),
            {
                name: score_rows(self.facts, answers, baseline, rows)
                for name, baseline in self.baselines(task, train, rows).items()
            },
            self.is_degenerate(answers, values),
        )


def merge_shares(shares: Sequence[Mapping[int, object]], count: int) -> dict[int, object]:
    """Return the predictions of all processes, or raise IntegrityError if a row was predicted twice or not at all."""
    predictions: dict[int, object] = {}
    for share in shares:
        if repeated := predictions.keys() & share.keys():
            raise IntegrityError(
                f"{len(repeated)} rows were predicted twice, first row {min(repeated)}"
            )
        predictions |= share
    if missing := set(range(count)) - predictions.keys():
        raise IntegrityError(
            f"{len(missing)} of {count} rows were not predicted, first row {min(missing)}"
        )
    return predictions


def iterate_batches(rows: RowBatch, rank: int, size: int) -> Iterator[Int64]:
    """Yield the batches of one process: indices of rows of similar length, in an order that depends only on the set."""
    order = np.argsort(rows.columns["input_ids"].lengths, kind="stable")
    for start in range(rank * _BATCH, len(order), size * _BATCH):
        yield order[start : start + _BATCH]


def windows_of(rows: RowBatch) -> list[list[int]]:
    """Return the rows of each document's windows, in order; documents in the order of their first rows."""
    windows: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for row in range(len(rows)):
        windows[rows.fixed["document_uid"][row].tobytes()].append(
            (int(rows.fixed["document_offset"][row]), row)
        )
    return [[row for _, row in sorted(parts)] for parts in windows.values()]


def stored_records(rows: RowBatch) -> list[dict[str, Any]]:
    """Return the column `record` of all rows."""
    return [record_of(rows, row) for row in range(len(rows))]


def texts_of(rows: RowBatch, tokenizer: Tokenizer) -> list[tuple[str, ...]]:
    """Return the texts of each row, as truncated by `max_length`: what the model sees; empty texts are dropped."""
    frame = {token for role, token in tokenizer.vocabulary.specials.items() if role != "unk"}
    texts_by_row = []
    for row in range(len(rows)):
        # special tokens separate the texts
        parts: list[list[int]] = [[]]
        for token in rows.columns["input_ids"][row].tolist():
            if token not in frame:
                parts[-1].append(token)
            elif parts[-1]:
                parts.append([])
        texts_by_row.append(tuple(tokenizer.decode(part).strip() for part in parts if part))
    return texts_by_row


def join_cells(cells: Sequence[Any]) -> str | None:
    """Return the texts of cells joined by a space, None if a cell is no text."""
    if not all(isinstance(cell, str) or cell is None for cell in cells):
        return None
    return " ".join(text for cell in cells if (text := (cell or "").strip()))


def finite(scores: Tensor) -> Tensor:
    """Return scores in float32; IntegrityError if one is not finite."""
    if not scores.isfinite().all():
        raise IntegrityError("a row got no finite score: the weights are unusable")
    return scores.float()


def rounded(value: float) -> float:
    """Return a probability or score as it is written."""
    return round(value, _DIGITS)


def mean(values: Iterable[float]) -> float:
    """Return the mean of numbers, 0 without any."""
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0


def array_of(predicted: Mapping[int, Any], dtype: Any) -> NDArray[Any]:
    """Return the predictions of rows 0, 1, ... in order."""
    return np.array([predicted[row] for row in range(len(predicted))], dtype)
