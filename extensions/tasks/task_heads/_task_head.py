"""The interface of task heads: what a head means outside the model.

Libraries that compute metrics are imported where they are used: training does not need them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clozeline.arrays import Int64
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.extensions.tasks.readers import Rejected, TaskItem, TaskMetadata
from clozeline.extensions.tasks.sets.task_rows import record_of
from clozeline.model.build import Model
from clozeline.model.configuration.head import Better, ClassOptions, HeadOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.train.configuration.model_source import unset_head_key

Record: TypeAlias = dict[str, Any]
"""A prediction in a file: `{"label": "good", "probability": 0.9}`."""
_BATCH_ROWS: Final = 32
"""Rows per forward pass. Batches, and thus padding, are the same for every number of processes."""
_DIGITS: Final = 6
"""Decimals of probabilities and scores: other batches change a score by some 1e-7."""


@dataclass(frozen=True)
class TaskModel:
    """A model with a task head, to predict the rows of a task."""

    model: Model
    tokenizer: Tokenizer
    head: str
    manifest: Manifest
    """manifest of the rows"""
    forward: Callable[[RowBatch], tuple[Tensor, Mapping[str, Tensor]]]
    """returns the scores of the head for some rows, and the tensors that the model read"""
    threshold: float = 0.0
    """margin by which "no answer" must win, if questions may have none"""


@dataclass(frozen=True)
class Judged:
    """Correct answers and guesses of a set, as metrics read them."""

    metadata: TaskMetadata
    gold: Any
    """classes or numbers [n], 0 and 1 for each class [n, classes], tags of each sentence, accepted
    texts, or questions"""
    guesses: Any
    """in the form of `gold`; of a question its answer"""
    predictions: Any = None
    """what the model predicts for each row, such as probabilities of classes; None: a baseline"""
    documents: Any = None
    """key of the document of each row [n, bytes]"""
    language: str = "und"

    @property
    def count(self) -> int:
        """Number of rows, words or questions."""
        return len(self.gold)


class Metric(NamedTuple):
    """A metric of a task."""

    of: Callable[[Any], float]
    """returns its value from `Judged`"""
    better: Better = "higher"
    of_model: bool = False
    """it reads `predictions`, which baselines have not"""


@dataclass(frozen=True)
class TaskScores:
    """Metrics of a model and of baselines."""

    count: int
    """number of rows, words or questions"""
    metrics: Mapping[str, float]
    baselines: Mapping[str, Mapping[str, float]]
    """metrics of each baseline, without those that need a model"""
    degenerate: bool = False
    """answers or predictions are constant: no correlation is defined"""
    signatures: Mapping[str, str] = field(default_factory=dict)
    """metric → signature of sacrebleu"""
    unparsable: int | None = None
    """generated texts that name no class or number"""
    lower: frozenset[str] = frozenset()
    """metrics of which lower values are better"""


class TaskHead(ABC):
    """Predicts and scores the texts, sentences, questions or pairs of a task."""

    of_head: ClassVar[str]
    """head whose answers these are"""
    unit: ClassVar[str] = ""
    """name of the items that a score counts; empty: texts or pairs of texts"""
    layout: str | None = None
    """official layout of its predictions: glue or squad"""
    pseudo_labels: ClassVar[bool] = False
    """its predictions are classes with probabilities, by which `pseudo-label` selects rows"""

    def __init__(self, metadata: TaskMetadata) -> None:
        self.metadata = metadata

    @property
    def score_unit(self) -> str:
        """Name of the items that a score counts."""
        return self.unit or ("pairs" if self.metadata.texts > 1 else "texts")

    # -- training

    def configure(self, model: ModelConfig, name: str, where: str) -> HeadOptions:
        """Return the head with settings from a set: by default its labels, if it has any.

        Raises:
            ConfigurationError: the configuration, or another set, has other labels.
        """
        head = model.heads[name]
        metadata = self.metadata
        key = f"model.heads.{name}"
        if not metadata.labels or not isinstance(head, ClassOptions):
            return head
        if head.labels and head.labels != metadata.labels:
            raise ConfigurationError(
                f"{key}.labels: expected {', '.join(metadata.labels)}, in the order of {where}, "
                f"got {', '.join(head.labels)}: an index would mean another label; train on sets "
                f"of one task, or {unset_head_key(model, name, 'labels')}"
            )

        if head.classes not in (None, len(metadata.labels)):
            remedy = unset_head_key(model, name, "classes")
            raise ConfigurationError(
                f"{key}.classes: {where} has {len(metadata.labels)} classes "
                f"({', '.join(metadata.labels)}), got {head.classes}: {remedy}; the set decides it"
            )

        return replace(head, labels=metadata.labels)

    def fit(self, head: HeadOptions, training: Iterable[RowBatch]) -> HeadOptions:
        """Return the head with settings from the training rows: by default none."""
        return head

    # -- predictions

    def predict(
        self, task: TaskModel, rows: RowBatch, rank: int = 0, size: int = 1
    ) -> dict[int, Any]:
        """Return the predictions for the share of one process: row index → prediction.

        Entire batches are distributed over the processes: each row is in the same batch for every
        number of processes, and computed once.
        """
        predictions: dict[int, object] = {}
        with torch.no_grad():
            for batch in iterate_batches(rows, rank, size):
                batch_rows = rows.take(batch)
                batch_predictions = self.read(*task.forward(batch_rows), batch_rows)
                predictions |= dict(zip(batch.tolist(), batch_predictions, strict=True))
        return predictions

    def read(
        self, scores: Tensor, tensors: Mapping[str, Tensor], rows: RowBatch
    ) -> Sequence[object]:
        """Return the prediction of each row of a batch from the head's scores.

        Predictions can be pickled, to send them to other processes.

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

    def as_given(self, record: Record, item: Any, form: NormalForm) -> Record:
        """Return the record of an item in the text as its file writes it: by default unchanged."""
        return record

    def empty(self, item: TaskItem | Rejected) -> Record:
        """Return the fields of the record of an item without tokens, except the reason."""
        return {}

    def certain_classes(self, prediction: object) -> tuple[tuple[int, ...], float]:
        """Return the class or classes of a row, and the lowest probability among them.

        Only for heads with `pseudo_labels`.
        """
        raise NotImplementedError

    # -- scores

    @abstractmethod
    def gold(self, task: TaskModel, rows: RowBatch) -> dict[int, Record]:
        """Return the correct answer (`gold`) and the texts that the model read (`texts`).

        The keys are the first row of each record.
        """

    @abstractmethod
    def error(self, gold: object, record: Record) -> float:
        """Return 0 for a correct prediction, else up to 1, or the distance of a number."""

    def classes(self, gold: Any, record: Record) -> Iterable[tuple[Sequence[str], Sequence[str]]]:
        """Yield gold and predicted classes of each unit of a record, if answers are classes."""
        return ()

    def choose_threshold(
        self, rows: RowBatch, predicted: Mapping[int, object]
    ) -> tuple[float, float]:
        """Return the threshold of "no answer" with the best F1, and that F1.

        Only for questions that may have no answer.
        """
        raise NotImplementedError

    @property
    @abstractmethod
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics of the task by name."""

    @abstractmethod
    def judge(
        self, task: TaskModel, train: RowBatch, rows: RowBatch, predicted: Mapping[int, Any]
    ) -> Judged:
        """Return the correct answers of a split and the guesses of the model."""

    def baselines(self, task: TaskModel, train: RowBatch, rows: RowBatch) -> dict[str, Any]:
        """Return the guesses of each baseline, fitted on the training rows."""
        return {}

    def further_metrics(self, judged: Judged) -> tuple[str, ...]:
        """Return metrics that a score shows in addition to those that the set names."""
        return ()

    def remarks(self, judged: Judged, names: Sequence[str]) -> dict[str, Any]:
        """Return further fields of `TaskScores`, which say how metrics are to be read."""
        return {}

    def score(
        self,
        task: TaskModel,
        train: RowBatch,
        rows: RowBatch,
        predicted: Mapping[int, Any],
        names: Sequence[str] = (),
    ) -> TaskScores:
        """Return metrics of a split over all rows at once, by default those of the task.

        Raises:
            ConfigurationError: the task has no such metric.
        """
        judged = self.judge(task, train, rows, predicted)
        known = self.metrics
        names = names or (*self.metadata.metrics, *self.further_metrics(judged))
        if unknown := [name for name in names if name not in known]:
            raise ConfigurationError(
                f"metrics: expected metrics of the task {self.metadata.name} "
                f"({', '.join(known)}), got {unknown[0]}"
            )

        def scores(judged: Judged) -> dict[str, float]:
            has_model = judged.predictions is not None
            return {
                name: known[name].of(judged)
                for name in names
                if has_model or not known[name].of_model
            }

        baselines = {
            name: scores(replace(judged, guesses=guesses, predictions=None))
            for name, guesses in self.baselines(task, train, rows).items()
        }
        lower = frozenset(name for name in names if known[name].better == "lower")
        return TaskScores(
            judged.count, scores(judged), baselines, lower=lower, **self.remarks(judged, names)
        )


class RowTaskHead(TaskHead):
    """A task head whose correct answers are in a column of the set."""

    layout: str | None = "glue"

    @abstractmethod
    def answers(self, rows: RowBatch) -> NDArray[Any]:
        """Return the stored answer of each row."""

    @abstractmethod
    def values(self, predicted: Mapping[int, Any]) -> NDArray[Any]:
        """Return predictions in the form of `answers`."""

    @abstractmethod
    def record(self, prediction: object) -> Record:
        """Return the record of a prediction."""

    def texts(self, rows: RowBatch, task: TaskModel) -> list[tuple[str, ...]]:
        """Return the texts of each row; of a pair in both orders, the texts of the first order."""
        texts = texts_of(rows, task.tokenizer)
        return (
            [both[: self.metadata.texts] for both in texts] if self.metadata.both_orders else texts
        )

    @abstractmethod
    def majority(self, answers: NDArray[Any]) -> Any:
        """Return the most frequent answer, or the mean."""

    def baselines(self, task: TaskModel, train: RowBatch, rows: RowBatch) -> dict[str, Any]:
        """Return `majority`, and `words`, a linear model on the words of the texts."""
        from clozeline.extensions.tasks.task_heads._bag_of_words import fit_predict

        answers = self.answers(train)
        texts = self.texts(rows, task)
        majority = np.asarray(self.majority(answers))
        words = fit_predict(self.texts(train, task), answers, texts, self.metadata.texts)
        return {
            "majority": np.broadcast_to(majority, (len(texts), *majority.shape)),
            "words": words,
        }

    def show(self, answer: object) -> object:
        """Return a stored answer in the form of a record."""
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

    def judge(
        self, task: TaskModel, train: RowBatch, rows: RowBatch, predicted: Mapping[int, Any]
    ) -> Judged:
        return Judged(
            self.metadata,
            self.answers(rows),
            self.values(predicted),
            [predicted[row] for row in range(len(predicted))],
            rows.fixed.get("document_uid"),
        )


def merge_shares(shares: Sequence[Mapping[int, object]], count: int) -> dict[int, object]:
    """Return the predictions of all processes.

    Raises:
        IntegrityError: a row was predicted twice or not at all.
    """
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
    """Yield the batches of one process: indices of rows of similar length.

    Their order depends only on the set.
    """
    order = np.argsort(rows.columns["input_ids"].lengths, kind="stable")
    for start in range(rank * _BATCH_ROWS, len(order), size * _BATCH_ROWS):
        yield order[start : start + _BATCH_ROWS]


def windows_of(rows: RowBatch) -> list[list[int]]:
    """Return the rows of the windows of each document, in the order of the documents."""
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
    """Return the texts of each row that the model reads, truncated by `max_length`.

    Empty texts are dropped.
    """
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
