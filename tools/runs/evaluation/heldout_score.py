"""The score of a model on a held-out set: the loss of its heads in nats, and the accuracy where a head judges."""

from __future__ import annotations

import numpy as np
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.pipeline.shards import ShardSet
from clozeline.tools.runs.evaluation.predictions import set_rows
from clozeline.train.data.stream.collate import Collate

_BATCH = 32


def heldout_score(model: Model, shards: ShardSet, most_rows: int | None = None) -> tuple[str, float]:
    """Return `accuracy` and its share of right rows or labels, or `nats` and the weighed sum of the heads' mean losses.

    Args:
        model: in evaluation mode.
        shards: the set.
        most_rows: rows that are scored, from the first on; None: all.

    Raises:
        ConfigurationError: the model draws its inputs, or the set has no label of its heads.
    """
    if "sample_words" in model.needs:
        raise ConfigurationError(f"{shards.path}: inputs of this model are drawn in training; it has no score of a set")
    rows, collate = set_rows(shards), Collate.from_manifest(shards.manifest)
    sums = dict.fromkeys(model.heads, 0.0)
    counts, right = dict.fromkeys(model.heads, 0), dict.fromkeys(model.heads, 0.0)
    judged: set[str] = set()
    order = np.argsort(rows.columns["input_ids"].lengths[:most_rows], kind="stable")
    with torch.no_grad():
        for first in range(0, len(order), _BATCH):
            batch = order[first : first + _BATCH]
            columns = {name: rows.columns[name].take(batch) for name in collate.columns}
            for name, loss in model(collate(columns, np.ones(len(batch), np.float32))).items():
                sums[name] += float(loss.total)
                counts[name] += int(loss.count)
                if "accuracy" in loss.figures:
                    judged.add(name)
                    right[name] += float(loss.figures["accuracy"])
    if empty := [name for name, count in counts.items() if not count]:
        raise ConfigurationError(f"{shards.path}: has no label of the head {empty[0]}")
    if len(counts) == len(judged) == 1:
        (name,) = judged
        return "accuracy", right[name] / counts[name]
    weights = model.config.head_weights
    return "nats", sum(weights[name] * sums[name] / counts[name] for name in counts)
