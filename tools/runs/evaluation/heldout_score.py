"""Score a model on a held-out set: the loss of its heads in nats, or the accuracy of a head that has one."""

import numpy as np
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.pipeline.shards import ShardSet
from clozeline.tools.runs.evaluation.task_run import set_rows
from clozeline.train.data.stream.collate import Collate

_BATCH = 32


def heldout_score(model: Model, shards: ShardSet, most_rows: int | None = None) -> tuple[str, float]:
    """Return `accuracy` and its value, or `nats` and the weighted sum of the heads' mean losses."""
    if "sample_words" in model.needs:
        raise ConfigurationError(f"{shards.path}: this model samples its inputs in training; it has no score of a set")
    rows, collate = set_rows(shards), Collate.from_manifest(shards.manifest)
    sums = dict.fromkeys(model.heads, 0.0)
    counts, right = dict.fromkeys(model.heads, 0), dict.fromkeys(model.heads, 0.0)
    heads_with_accuracy: set[str] = set()
    # rows of similar length share a batch, so that little is padded
    order = np.argsort(rows.columns["input_ids"].lengths[:most_rows], kind="stable")
    with torch.no_grad():
        for first in range(0, len(order), _BATCH):
            batch = order[first : first + _BATCH]
            columns = {name: rows.columns[name].take(batch) for name in collate.columns}
            losses = model(collate(columns, np.ones(len(batch), np.float32)))
            for name, loss in ((name, losses[name]) for name in model.heads):
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
    collate = Collate.from_manifest(shards.manifest)
    total, count, rows_read = 0.0, 0, 0
    with torch.no_grad():
        for number in range(len(shards.index)):
            rows = shards.read_block(number)
            left = min(len(rows), most_rows - rows_read)
            for first in range(0, left, _BATCH):
                indices = np.arange(first, min(first + _BATCH, left))
                columns = {name: rows.columns[name].take(indices) for name in collate.columns}
                losses = model(collate(columns, np.ones(len(indices), np.float32)))
                total += sum(float(losses[name].total) for name in model.heads)
                count += sum(int(losses[name].count) for name in model.heads)
            rows_read += len(rows)
    return total / count
