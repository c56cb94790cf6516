"""Labels of a micro-batch: where a model predicts them, what they are and how they weigh."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from pipeline.arrays import Int64
from pipeline.errors import IntegrityError
from pipeline.rows import Ragged
from train.stream.padding import flatten
from train.stream.row_buffer import Column

__all__ = ["label_weights", "next_tokens", "predicted_labels", "stored_labels", "tag_labels"]


@lru_cache(maxsize=64)
def _predicting(rows: int, width: int) -> Int64:
    """Return the flat places of all tokens but each row's last: they predict the next token. Shared, so copy it."""
    return np.arange(rows * width).reshape(rows, width)[:, :-1].reshape(-1)


def stored_labels(columns: Mapping[str, Column], width: int, previous: bool | Int64 = False) -> dict[str, Tensor]:
    """Return the labels of the columns; those of rows with `previous` are predicted one place earlier.

    Raises:
        IntegrityError: such a label is at place 0.
    """
    positions, rows = flatten(columns["label_positions"])
    ids, _ = flatten(columns["label_ids"])
    if previous is not False:
        positions = positions - (previous if previous is True else previous[rows])
        if len(positions) and positions.min() < 0:
            raise IntegrityError("a label at place 0 cannot be predicted from the place before it (predict_from)")
    return {"label_index": torch.from_numpy(rows * width + positions), "label_ids": torch.from_numpy(ids)}


def tag_labels(columns: Mapping[str, Column], width: int) -> dict[str, Tensor]:
    """Return the classes of words at their first tokens."""
    return stored_labels({"label_positions": columns["tag_positions"], "label_ids": columns["tags"]}, width)


def predicted_labels(columns: Mapping[str, Column], ids: Int64) -> dict[str, Tensor]:
    """Return `rank` [B, T] from `prediction_order`, 0 for context and r + 1 for the r-th prediction, and the labels.

    A label is the token at its own place. Labels are in the order of prediction.
    """
    places, rows = flatten(columns["prediction_order"])
    counts = np.bincount(rows, minlength=len(ids))
    rank = np.zeros(ids.shape, np.int64)
    rank[rows, places] = 1 + np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    return {
        "rank": torch.from_numpy(rank),
        "label_index": torch.from_numpy(rows * ids.shape[1] + places),
        "label_ids": torch.from_numpy(ids[rows, places].astype(np.int64)),
    }


def label_weights(columns: Mapping[str, Column], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights of labels [N] and what rows add to the divisor [B]; without a column, 1 and the row's labels."""
    width = tensors.get("decoder_input_ids", tensors["input_ids"]).shape[1]
    rows = tensors["label_index"].numpy() // width
    weights, counts = (
        np.ones(len(tensors["input_ids"]), np.float32),
        np.bincount(rows, minlength=len(tensors["lengths"])),
    )
    for name, values in (("label_weight", weights), ("label_count", counts)):
        if name in columns:
            column = columns[name]
            if isinstance(column, Ragged):
                values[column.lengths > 0] = column.values
            else:
                values[:] = column[:, 0]
    return {"label_weight": torch.from_numpy(weights[rows]), "label_count": torch.from_numpy(counts)}


def next_tokens(ids: Int64, lengths: Int64, prefix: Int64 | None, starts: Int64 | None) -> dict[str, Tensor]:
    """Return next-token labels: token i, predicted at i - 1, from max(1, prefix) on, unless it opens a document."""
    rows, width = ids.shape
    if prefix is None and starts is None and int(lengths.min()) == width:
        return {
            "label_index": torch.from_numpy(_predicting(rows, width).copy()),
            "label_ids": torch.from_numpy(ids[:, 1:].astype(np.int64).reshape(-1)),
        }
    place = np.arange(width)
    first = np.ones(rows, np.int64) if prefix is None else np.maximum(prefix, 1)
    valid = (place >= first[:, None]) & (place < lengths[:, None])
    if starts is not None:
        valid &= starts == 0
    index = np.flatnonzero(valid)
    return {
        "label_index": torch.from_numpy(index - 1),
        "label_ids": torch.from_numpy(ids.reshape(-1)[index].astype(np.int64, copy=False)),
    }
