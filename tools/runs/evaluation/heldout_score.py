"""Score a model on a held-out set: the loss of its heads in nats, or the accuracy of a head that has one."""

from collections.abc import Iterator, Mapping
from itertools import accumulate

import numpy as np
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.loss import Loss
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import ShardSet
from clozeline.train.data.stream.collate import Collate

_BATCH = 32


def heldout_score(model: Model, shards: ShardSet, most_rows: int | None = None) -> tuple[str, float]:
    """Return `accuracy` and its value, or `nats` and the weighted sum of the heads' mean losses."""
    if "sample_words" in model.needs:
        raise ConfigurationError(f"{shards.path}: this model samples its inputs in training; it has no score of a set")
    sums = dict.fromkeys(model.heads, 0.0)
    counts, right = dict.fromkeys(model.heads, 0), dict.fromkeys(model.heads, 0.0)
    heads_with_accuracy: set[str] = set()
    for losses in _batch_losses(model, shards, most_rows):
        for name, loss in losses.items():
            sums[name] += float(loss.total)
            counts[name] += int(loss.count)
            if "accuracy" in loss.figures:
                heads_with_accuracy.add(name)
                right[name] += float(loss.figures["accuracy"])
    if empty := [name for name, count in counts.items() if not count]:
        raise ConfigurationError(f"{shards.path}: has no label of the head {empty[0]}")
    if len(counts) == len(heads_with_accuracy) == 1:
        (name,) = heads_with_accuracy
        return "accuracy", right[name] / counts[name]
    weights = model.config.head_weights
    return "nats", sum(weights[name] * sums[name] / counts[name] for name in counts)


def label_loss(model: Model, shards: ShardSet, most_rows: int) -> float:
    """Return the mean loss in nats of a label of the first rows, over all heads.

    Sets the model's heads to normalize by label, even if it was trained with `normalise: row`, so that all variants are
    measured the same way.
    """
    for head in model.heads.values():
        head.normalise = "label"
    losses = [loss for batch in _batch_losses(model, shards, most_rows) for loss in batch.values()]
    return sum(float(loss.total) for loss in losses) / sum(int(loss.count) for loss in losses)


def _batch_losses(model: Model, shards: ShardSet, most_rows: int | None) -> Iterator[Mapping[str, Loss]]:
    """Yield the losses of the heads on the first rows of a set, a batch at a time."""
    ends = [*accumulate(shards.index.rows.tolist(), initial=0)]
    blocks = [block for block in range(len(ends) - 1) if most_rows is None or ends[block] < most_rows]
    rows = Rows.concatenate([shards.read_block(block) for block in blocks])
    collate = Collate.from_manifest(shards.manifest)
    # rows of similar length share a batch, so that little is padded
    order = np.argsort(rows.columns["input_ids"].lengths[:most_rows], kind="stable")
    for first in range(0, len(order), _BATCH):
        batch = order[first : first + _BATCH]
        columns = {name: rows.columns[name].take(batch) for name in collate.columns}
        with torch.no_grad():
            losses = model(collate(columns, np.ones(len(batch), np.float32)))
        yield {name: losses[name] for name in model.heads}
