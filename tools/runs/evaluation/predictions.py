"""Predict every row of a task's set, with the same result for every number of processes."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clozeline.arrays import Int64
from clozeline.errors import IntegrityError
from clozeline.model.build import Model
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.tools.runs.evaluation.metrics import Predictions
from clozeline.train.data.stream.collate import Collate

_BATCH: Final = 32
"""Rows per forward pass. Batches, and thus padding, are the same for every number of processes."""

_CLASSES: Final = {"classification": "label", "multiple_choice": "choice"}
"""Column with the index of the correct class or choice, by the head that learns it."""

Read: TypeAlias = Callable[[Tensor, Mapping[str, Tensor], Rows], Sequence[Any]]
"""Reads predictions from the scores of a batch, the batch and its rows."""


def set_rows(shards: ShardSet) -> Rows:
    return Rows.concatenate([shards.read_block(block) for block in range(len(shards.index))])


def answers_of(rows: Rows, facts: TaskFacts) -> NDArray[Any]:
    """Return the classes [n] int64, 0 and 1 for several classes [n, classes] int64, or the numbers [n] float64."""
    if facts.multi_label:
        return rows.columns["labels"].values.astype(np.int64).reshape(len(rows), len(facts.labels))
    if facts.head in _CLASSES:
        return rows.columns[_CLASSES[facts.head]].values.astype(np.int64)
    return rows.columns["target"].values.astype(np.float64)


def predict_share(
    model: Model, shards: ShardSet, rows: Rows, head: str, rank: int, size: int, read: Read | None = None
) -> dict[int, Any]:
    """Return the prediction for each row in one process's share, by row index.

    Entire batches are distributed over the processes, so each row is computed with the same others for every number of
    processes, and only once. `read` returns the predictions of rows, given the head's scores, the batch and the rows;
    None: classes or numbers.
    """
    read = read or _read_class_or_number
    collate = Collate.from_manifest(shards.manifest)
    predictions: dict[int, Any] = {}
    with torch.no_grad():
        for batch in iterate_batches(rows, rank, size):
            columns = {name: rows.columns[name].take(batch) for name in collate.columns}
            tensors = collate(columns, np.ones(len(batch), np.float32))
            values = read(model.logits(tensors)[head], tensors, rows.take(batch))
            predictions |= dict(zip(batch.tolist(), values, strict=True))
    return predictions


def _read_class_or_number(scores: Tensor, tensors: Mapping[str, Tensor], rows: Rows) -> list[float]:
    """Return each row's best class or choice, or its number; NaN for invalid scores.

    Choices that a row lacks have the score -inf.
    """
    not_a_number = scores.isnan() | (scores == torch.inf)
    values = scores.argmax(-1).where(~not_a_number.any(-1), math.nan) if scores.ndim == 2 else scores
    values_list: list[float] = values.tolist()
    return values_list


def read_several(scores: Tensor, tensors: Mapping[str, Tensor], rows: Rows) -> list[list[float]]:
    """Return 1 for each class of a row whose probability is above one half, otherwise 0; NaN for invalid scores."""
    several: list[list[float]] = (scores > 0).float().where(scores.isfinite(), math.nan).tolist()
    return several


def read_best_class(scores: Tensor, tensors: Mapping[str, Tensor], rows: Rows) -> list[tuple[Any, Any]]:
    """Return the most probable class of each row, and its probability."""
    best = scores.float().softmax(-1).max(-1)
    if not torch.isfinite(best.values).all():
        raise IntegrityError("a row got no finite score: the weights are unusable")
    return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))


def read_probable_classes(scores: Tensor, tensors: Mapping[str, Tensor], rows: Rows) -> list[tuple[Any, Any]]:
    """Return the classes of each row whose probability is above one half, and the least certain probability."""
    chances = scores.float().sigmoid()
    if not torch.isfinite(chances).all():
        raise IntegrityError("a row got no finite score: the weights are unusable")
    sure = chances.maximum(1 - chances).amin(-1).tolist()
    return [(tuple(row.nonzero()[:, 0].tolist()), least) for row, least in zip(chances > 0.5, sure, strict=True)]


def merge_shares(shares: Sequence[Mapping[int, Any]], count: int) -> dict[int, Any]:
    """Return the predictions of all processes, or raise IntegrityError if a row was predicted twice or not at all."""
    predictions: dict[int, Any] = {}
    for share in shares:
        if repeated := predictions.keys() & share.keys():
            raise IntegrityError(f"{len(repeated)} rows were predicted twice, first row {min(repeated)}")
        predictions |= share
    if missing := set(range(count)) - predictions.keys():
        raise IntegrityError(f"{len(missing)} of {count} rows were not predicted, first row {min(missing)}")
    return predictions


def collect_predictions(shares: Sequence[Mapping[int, Any]], rows: Rows, facts: TaskFacts) -> Predictions:
    """Return the predictions of all processes, or raise IntegrityError for missing, repeated or non-finite ones."""
    predictions = merge_shares(shares, len(rows))
    if not_finite := [row for row, value in sorted(predictions.items()) if not np.isfinite(value).all()]:
        counted = f"{len(not_finite)} rows got no finite number, first row {not_finite[0]}"
        raise IntegrityError(f"{counted}: the weights are unusable")
    answers = answers_of(rows, facts)
    return Predictions(answers, np.array([predictions[row] for row in range(len(rows))], answers.dtype))


def iterate_batches(rows: Rows, rank: int, size: int) -> Iterator[Int64]:
    """Yield the batches of one process: indices of rows of similar length, in an order that depends only on the set."""
    order = np.argsort(rows.columns["input_ids"].lengths, kind="stable")
    for start in range(rank * _BATCH, len(order), size * _BATCH):
        yield order[start : start + _BATCH]


def windows_of(rows: Rows) -> list[list[int]]:
    """Return the rows of each document's windows, in order; documents in the order of their first rows."""
    windows: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for row in range(len(rows)):
        windows[rows.fixed["document_uid"][row].tobytes()].append((int(rows.fixed["document_offset"][row]), row))
    return [[row for _, row in sorted(parts)] for parts in windows.values()]
