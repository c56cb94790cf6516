"""Score a model on a held-out set.

The score is the loss of its heads in nats, or the accuracy of a head that has one.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

import numpy as np
import torch

from clozeline.arrays import Int64
from clozeline.columns import SAMPLE_WORDS
from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.configuration.head import LabelOptions
from clozeline.model.loss import Loss
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import ShardSet
from clozeline.train.data.stream.collate import Collate

_BATCH_ROWS: Final = 32
"""Number of rows in a batch."""
FEWEST_DOCUMENTS: Final = 30
"""Documents of a held-out set below which its standard error is computed and shown."""


def heldout_score(
    model: Model, shards: ShardSet, most_rows: int | None = None
) -> tuple[str, float]:
    """Return `accuracy` and its value, or `nats` and the weighted sum of the heads' mean losses."""
    if SAMPLE_WORDS.name in model.reads:
        raise ConfigurationError(
            f"{shards.path}: this model samples its inputs in training; it has no score of a set"
        )

    sums = dict.fromkeys(model.heads, 0.0)
    counts = dict.fromkeys(model.heads, 0)
    right = dict.fromkeys(model.heads, 0.0)
    heads_with_accuracy: set[str] = set()
    rows = _read_rows(shards, most_rows)
    for losses in _batch_losses(
        model, rows, _by_length(rows), Collate.from_manifest(shards.manifest)
    ):
        for name, loss in losses.items():
            sums[name] += float(loss.total)
            counts[name] += int(loss.count)
            if "accuracy" in loss.metrics:
                heads_with_accuracy.add(name)
                right[name] += float(loss.metrics["accuracy"])

    if empty := [name for name, count in counts.items() if not count]:
        raise ConfigurationError(f"{shards.path}: has no label of the head {empty[0]}")
    if len(counts) == len(heads_with_accuracy) == 1:
        (name,) = heads_with_accuracy
        return "accuracy", right[name] / counts[name]

    weights = model.config.head_weights
    return "nats", sum(weights[name] * sums[name] / counts[name] for name in counts)


@dataclass(frozen=True)
class LabelLoss:
    """The mean loss of a label, and how much of it is chance."""

    nats: float
    documents: int
    """documents in which the rows begin"""
    standard_error: float | None
    """of the loss, from the means of the documents; None for one document, or for
    `FEWEST_DOCUMENTS` or more"""


def label_loss(model: Model, shards: ShardSet, most_rows: int) -> LabelLoss:
    """Return the mean loss of a label of the first rows, over all heads.

    Sets the model's heads to normalize by label, even if it was trained with `normalize: row`, so
    that all variants are measured the same way.
    """
    for head in model.heads.values():
        if isinstance(head.options, LabelOptions):
            head.options = replace(head.options, normalize="label")

    rows = _read_rows(shards, most_rows)
    collate = Collate.from_manifest(shards.manifest)
    order = _by_length(rows)
    nats, _ = _mean_loss(_batch_losses(model, rows, order, collate))
    distinct, document = np.unique(rows.fixed["document_uid"], axis=0, return_inverse=True)
    documents = len(distinct)
    if not 1 < documents < FEWEST_DOCUMENTS:
        return LabelLoss(nats, documents, None)
    parts = [order[document[order] == number] for number in range(documents)]
    means = np.array([_mean_loss(_batch_losses(model, rows, part, collate)) for part in parts])
    return LabelLoss(nats, documents, _estimate_standard_error(means[:, 0], means[:, 1]))


def _estimate_standard_error(values: np.ndarray[Any, Any], weights: np.ndarray[Any, Any]) -> float:
    """Return the standard error of a ratio of sums over clusters.

    Source: Cochran, Sampling Techniques, 1977, chapter 6.
    """
    count = len(values)
    residuals = weights * (values - np.average(values, weights=weights))
    return float(np.sqrt(count / (count - 1) * (residuals**2).sum()) / weights.sum())


def _mean_loss(batches: Iterable[Mapping[str, Loss]]) -> tuple[float, int]:
    """Return the mean over all labels of all heads, and their number."""
    losses = [loss for batch in batches for loss in batch.values()]
    count = sum(int(loss.count) for loss in losses)
    return sum(float(loss.total) for loss in losses) / max(1, count), count


def _read_rows(shards: ShardSet, most_rows: int | None) -> RowBatch:
    ends = [*accumulate(shards.index.rows.tolist(), initial=0)]
    blocks = [
        block for block in range(len(ends) - 1) if most_rows is None or ends[block] < most_rows
    ]
    rows = RowBatch.concatenate([shards.read_block(block) for block in blocks])
    return rows if most_rows is None or len(rows) <= most_rows else rows.take(np.arange(most_rows))


def _by_length(rows: RowBatch) -> Int64:
    """Return an order in which rows of similar length share a batch, so that little is padded."""
    return np.argsort(rows.columns["input_ids"].lengths, kind="stable")


def _batch_losses(
    model: Model, rows: RowBatch, order: Int64, collate: Collate
) -> Iterator[Mapping[str, Loss]]:
    """Yield the losses of the heads on some rows, a batch at a time."""
    for first in range(0, len(order), _BATCH_ROWS):
        batch = order[first : first + _BATCH_ROWS]
        columns = {name: rows.columns[name].take(batch) for name in collate.columns}
        with torch.no_grad():
            losses = model(collate(columns, np.ones(len(batch), np.float32)))
        yield {name: losses[name] for name in model.heads}
