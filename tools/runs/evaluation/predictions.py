"""Predictions of a trained model for every row of a task's set, the same for every number of processes."""

from __future__ import annotations

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
"""Rows of a forward pass. Batches are the same for every number of processes, so their padding is too."""

_CLASSES: Final = {"classification": "label", "multiple_choice": "choice"}
"""Column with the number of the right class or choice, by the head that learns it."""

Read: TypeAlias = Callable[[Tensor, Mapping[str, Tensor], Rows], Sequence[Any]]
"""A function of the scores of a batch, the batch and its rows."""


def set_rows(shards: ShardSet) -> Rows:
    """Return all rows of a set, in its order."""
    return Rows.concatenate([shards.read_block(block) for block in range(len(shards.index))])


def answers_of(rows: Rows, facts: TaskFacts) -> NDArray[Any]:
    """Return the classes [n] int64, or the numbers [n] float64, of rows."""
    if facts.head in _CLASSES:
        return rows.columns[_CLASSES[facts.head]].values.astype(np.int64)
    return rows.columns["target"].values.astype(np.float64)


def predict_share(
    model: Model,
    shards: ShardSet,
    rows: Rows,
    head: str,
    rank: int,
    size: int,
    read: Read | None = None,
) -> dict[int, Any]:
    """Return the prediction of each row of one process's share, by the number of the row.

    Whole batches are dealt to the processes, so each row is computed beside the same others in every world, and no row
    twice.

    Args:
        model: in evaluation mode.
        shards: the set.
        rows: all of its rows.
        head: of the task.
        rank: of this process.
        size: number of processes.
        read: returns the predictions of rows, from the head's scores, the batch and the rows; None: classes or numbers.
    """
    read = read or _class_or_number
    collate = Collate.from_manifest(shards.manifest)
    found: dict[int, Any] = {}
    with torch.no_grad():
        for batch in dealt(rows, rank, size):
            columns = {name: rows.columns[name].take(batch) for name in collate.columns}
            tensors = collate(columns, np.ones(len(batch), np.float32))
            found |= dict(
                zip(batch.tolist(), read(model.logits(tensors)[head], tensors, rows.take(batch)), strict=True)
            )
    return found


def _class_or_number(scores: Tensor, tensors: Mapping[str, Tensor], rows: Rows) -> list[float]:
    """Return the class or choice with the highest score of each row, or the row's number; NaN where one is no number.

    Choices that a row lacks have the score -inf.
    """
    broken = scores.isnan() | (scores == torch.inf)
    values = scores.argmax(-1).where(~broken.any(-1), math.nan) if scores.ndim == 2 else scores
    found: list[float] = values.tolist()
    return found


def whole(shares: Sequence[Mapping[int, Any]], count: int) -> dict[int, Any]:
    """Return the predictions of all processes together.

    Args:
        shares: of each process.
        count: rows of the set.

    Raises:
        IntegrityError: a row was predicted twice, or not at all.
    """
    found: dict[int, Any] = {}
    for share in shares:
        if twice := found.keys() & share.keys():
            raise IntegrityError(f"{len(twice)} rows were predicted twice, first row {min(twice)}")
        found |= share
    if missing := set(range(count)) - found.keys():
        raise IntegrityError(f"{len(missing)} of {count} rows were not predicted, first row {min(missing)}")
    return found


def predict(shares: Sequence[Mapping[int, float]], rows: Rows, facts: TaskFacts) -> Predictions:
    """Return the predictions of all processes together.

    Raises:
        IntegrityError: a row was predicted twice, not at all, or as no finite number.
    """
    found = whole(shares, len(rows))
    if bad := [row for row, value in sorted(found.items()) if not math.isfinite(value)]:
        raise IntegrityError(f"{len(bad)} rows got no finite number, first row {bad[0]}: the weights are no use")
    answers = answers_of(rows, facts)
    return Predictions(answers, np.array([found[row] for row in range(len(rows))], answers.dtype))


def dealt(rows: Rows, rank: int, size: int) -> Iterator[Int64]:
    """Yield the batches of one process: numbers of rows of similar length, in an order that follows from the set alone.

    Args:
        rows: of the set.
        rank: of the process.
        size: number of processes.
    """
    order = np.argsort(rows.columns["input_ids"].lengths, kind="stable")
    for start in range(rank * _BATCH, len(order), size * _BATCH):
        yield order[start : start + _BATCH]


def windows_of(rows: Rows) -> list[list[int]]:
    """Return the rows that hold each document's windows, in their order; documents in the order of their first rows."""
    windows: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for row in range(len(rows)):
        windows[rows.fixed["document_uid"][row].tobytes()].append((int(rows.fixed["document_offset"][row]), row))
    return [[row for _, row in sorted(parts)] for parts in windows.values()]
