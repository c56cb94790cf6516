"""Examples with several choices as rows: each choice is read by the model as a row of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch
from torch import Tensor

from model.loss import IGNORED
from pipeline.arrays import Int64
from pipeline.rows import Ragged
from train.stream.padding import flatten, one_a_row
from train.stream.row_buffer import Column

__all__ = ["rows_of_choices"]

_PLACES: Final = ("segment_starts",)
"""Columns with places in `input_ids`."""


def rows_of_choices(columns: Mapping[str, Column]) -> tuple[dict[str, Column], dict[str, Tensor]]:
    """Return the columns of the rows of all choices, and `choices` [B] with `label` [B] of the examples, int64.

    The rows are those of the first example in their order, then those of the second, and so on. An example without
    choices, which is filler, becomes one empty row, and its label is -100.

    Args:
        columns: of examples: `input_ids` with all choices end to end, `choice_starts`, `choice`, and places.

    Example (an example of two choices, and filler):
        >>> lists = {"input_ids": [[7, 8, 9], []], "choice_starts": [[0, 2], []], "choice": [[1], []]}
        >>> columns = {name: Ragged.from_lists(given, np.int64) for name, given in lists.items()}
        >>> rows, chosen = rows_of_choices(columns)
        >>> [row.tolist() for row in rows["input_ids"]], chosen["choices"].tolist(), chosen["label"].tolist()
        ([[7, 8], [9], []], [2, 1], [1, -100])
    """
    ids, offsets = _ragged(columns["input_ids"])
    empty = Ragged(np.zeros(0, np.int64), np.zeros(len(offsets), np.int64))
    starts, examples = flatten(columns.get("choice_starts", empty))
    counts = np.bincount(examples, minlength=len(offsets) - 1)
    filler = offsets[:-1][counts == 0]
    begins = np.sort(np.concatenate((offsets[:-1][examples] + starts, filler)))
    rows: dict[str, Column] = {"input_ids": Ragged(ids, np.append(begins, offsets[-1]))}
    for name in _PLACES:
        if name in columns:
            places, of = flatten(columns[name])
            places += offsets[:-1][of]
            row = np.searchsorted(begins, places, side="right") - 1
            held = np.bincount(row, minlength=len(begins))
            rows[name] = Ragged(places - begins[row], np.concatenate(([0], np.cumsum(held))))
    label = one_a_row(columns.get("choice", empty), IGNORED)
    return rows, {"choices": torch.from_numpy(np.maximum(counts, 1)), "label": torch.from_numpy(label)}


def _ragged(column: Column) -> tuple[Int64, Int64]:
    """Return the values of a column end to end, and where each list begins, [B + 1]."""
    if isinstance(column, Ragged):
        return column.values, column.offsets
    return column.reshape(-1), np.arange(len(column) + 1) * column.shape[1]
