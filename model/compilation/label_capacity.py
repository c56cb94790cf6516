"""Pad the labels of batches to a fixed number, so that a compiled head is compiled once."""

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from clozeline.model.loss import IGNORED

_FILLERS: Final = {
    **dict.fromkeys(("label_index", "label_weight", "sample_words", "span_left", "span_right"), 0),
    "label_ids": IGNORED,
    "span_offset": -1,
    "teacher_ids": 0,
    "teacher_weights": 0,
}
"""Tensors with one entry per label, and the padding entry that losses and counts ignore."""


def pad_labels(tensors: Mapping[str, Tensor], capacity: int) -> dict[str, Tensor]:
    """Pad the labels of a batch to the next multiple of a capacity, with entries that have no effect.

    A batch without labels gets `capacity` such entries. Losses and gradients stay the same, up to the order of
    rounding. For each further multiple a compiler builds one more graph.

    Example:
        >>> batch = {"label_index": torch.tensor([3, 8]), "label_ids": torch.tensor([7, 9])}
        >>> {name: tensor.tolist() for name, tensor in pad_labels(batch, 3).items()}
        {'label_index': [3, 8, 0], 'label_ids': [7, 9, -100]}
    """
    if "label_index" not in tensors:
        return dict(tensors)
    count = len(tensors["label_index"])
    missing = -count % capacity if count else capacity
    added = {
        name: tensors[name].new_full((missing, *tensors[name].shape[1:]), filler)
        for name, filler in _FILLERS.items()
        if name in tensors
    }
    return {**tensors, **{name: torch.cat((tensors[name], entries)) for name, entries in added.items()}}
