"""Evaluate a trained run on held-out rows batch by batch, so that runs can be compared on the same rows."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from clozeline.model.build import Model
from clozeline.pipeline.shards import ShardSet
from clozeline.seeding import hash64
from clozeline.tools.experiments.multirun.comparison import Difference, difference_of
from clozeline.train.data.stream.collate import Collate

Float64: TypeAlias = NDArray[np.float64]
_ROWS: Final = 8
"""rows per batch, the unit of resampling"""
_RESAMPLES: Final = 1000


def batch_losses(model: Model, shards: ShardSet, most_rows: int) -> list[list[float]]:
    """Return the summed loss and the number of labels of each batch of eight rows, over all heads.

    Sets the model's heads to normalize by label, even if it was trained with `normalise: row`, so that all variants are
    measured the same way.
    """
    for head in model.heads.values():
        head.normalise = "label"
    collate = Collate.from_manifest(shards.manifest)
    sums: list[list[float]] = []
    with torch.no_grad():
        for number in range(len(shards.index)):
            rows = shards.read_block(number)
            for first in range(0, len(rows), _ROWS):
                if len(sums) * _ROWS >= most_rows:
                    return sums
                indices = np.arange(first, min(first + _ROWS, len(rows)))
                columns = {name: rows.columns[name].take(indices) for name in collate.columns}
                # sums over the heads: loss and number of labels
                by_name = model(collate(columns, np.ones(len(indices), np.float32)))
                losses = [by_name[name] for name in model.heads]
                sums.append([sum(float(loss.total) for loss in losses), sum(float(loss.count) for loss in losses)])
    return sums


def loss_of(batches: Float64) -> float:
    """Return the mean loss in nats of batches [n, 2] of sums and counts."""
    total, count = batches.sum(axis=0)
    return float(total / count)


def verdict(lower: Sequence[Float64], higher: Sequence[Float64], seed: int = 0) -> Difference:
    """Return how much lower the loss of one variant is than another's, in nats, by bootstrap over the same batches.

    `lower` and `higher` hold sums and counts [batches, 2] of each run of a variant; the first is claimed to have the
    lower loss.
    """
    draws = np.random.Generator(np.random.Philox(key=hash64("verdict", seed)))
    rows = len(lower[0])
    counts = draws.multinomial(rows, np.full(rows, 1 / rows), _RESAMPLES)  # counts of each batch, [resamples, batches]
    resampled_losses = [np.mean([np.divide(*(counts @ run).T) for run in runs], axis=0) for runs in (higher, lower)]
    losses = [[loss_of(run) for run in runs] for runs in (higher, lower)]
    return difference_of(losses[0], losses[1], resampled_losses[0] - resampled_losses[1], rows)
