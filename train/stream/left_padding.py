"""Rows that are padded on the left and end in [CLS], the frame of XLNet (arXiv 1906.08237)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch
from torch import Tensor

from train.stream.padding import document_bounds, equal_lengths

__all__ = ["COLUMNS", "pad_left"]

COLUMNS: Final = frozenset(
    {
        *("input_ids", "prediction_order", "label_positions", "label_ids", "label_weight", "label_count"),
        *("document_starts", "segment_starts", "label", "target", "tag_positions", "tags"),
    }
)
"""Columns of rows that can be padded on the left; others count places from the beginning of a row."""
_BY_PLACE: Final = ("input_ids", "position_ids", "type_ids", "document_ids", "rank")
_CLASS_TYPE: Final = 2


def pad_left(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a batch whose padding is before the rows instead of after them.

    `left_padding` [B] is the number of places before the tokens. The last token, [CLS], has the segment type 2.

    Example:
        >>> batch = {"input_ids": torch.tensor([[7, 8, 3, 4], [9, 3, 4, 0]]), "lengths": torch.tensor([4, 3])}
        >>> moved = pad_left(batch)
        >>> moved["input_ids"][1].tolist(), moved["type_ids"][1].tolist(), moved["left_padding"].tolist()
        ([0, 9, 3, 4], [0, 0, 0, 2], [0, 1])
    """
    rows, width = tensors["input_ids"].shape
    lengths = tensors["lengths"].numpy()
    types = tensors["type_ids"].numpy().copy() if "type_ids" in tensors else np.zeros((rows, width), np.int64)
    types[np.arange(rows), lengths - 1] = _CLASS_TYPE
    moved = {**tensors, "type_ids": torch.from_numpy(types)}
    padding = width - lengths
    source = (np.arange(width) - padding[:, None]) % width
    for name in moved.keys() & _BY_PLACE:
        moved[name] = torch.from_numpy(np.take_along_axis(moved[name].numpy(), source, axis=1))
    moved["left_padding"] = torch.from_numpy(padding)
    if "label_index" in tensors:
        index = tensors["label_index"]
        moved["label_index"] = index + moved["left_padding"][index // width]
    if "document_ids" in tensors:  # the position ids of padding go on after those of the last document
        bounds = document_bounds((moved["position_ids"].numpy() == 0).astype(np.int64), equal_lengths(rows, width))
        moved["cu_seqlens"] = torch.from_numpy(bounds.astype(np.int32))
        moved["max_seqlen"] = torch.tensor(int(np.diff(bounds).max()))
    return moved
