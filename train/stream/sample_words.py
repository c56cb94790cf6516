"""The numbers by which a generator's tokens are drawn: a function of the seed, the step and the stored row."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from pipeline.arrays import Int64
from pipeline.kernels.sampling import draw
from pipeline.seeding import ROLES, keyed_hash, mix

__all__ = ["sample_words"]


def sample_words(seed: int, step: int, origin: Int64, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return an integer below 2^32 for each label of a batch, int64 [N].

    The place of a row in the data tells rows apart, so that ranks, micro-batches and padding change nothing.

    Args:
        seed: of the run.
        step: of the optimizer; 0 in an evaluation.
        origin: [B, 3], set, stored block and row in it.
        tensors: the batch, with `label_index` in the order of its rows.
    """
    parts = origin.astype(np.uint64)
    base = np.full(len(parts), keyed_hash("generator", seed, step), np.uint64)
    keys = reduce(lambda key, part: mix(key + part), parts.T, base)
    rows = tensors["label_index"].numpy() // tensors["input_ids"].shape[1]
    words = draw(keys, ROLES, np.bincount(rows, minlength=len(parts))) >> np.uint64(32)
    return torch.from_numpy(words.astype(np.int64))
