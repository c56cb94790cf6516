"""Build the tensors that single heads read, and the rows of multiple choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from clozeline.arrays import Int64
from clozeline.columns import IGNORED, Role
from clozeline.model.registries import HEADS
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.padding import empty_rows, flatten, pad_rows, scalar_column

if TYPE_CHECKING:
    from clozeline.model.heads import Head


@dataclass
class HeadBatch:
    """A micro-batch, from which heads build their tensors; see `StoredColumns`."""

    roles: Mapping[str, Role]
    """roles of the columns in the sets of the stream"""
    columns: Mapping[str, Ragged]
    """columns of this micro-batch; a column that no row has is empty"""
    tensors: Mapping[str, Tensor]
    """tensors of the batch so far, with its labels"""
    ids: Int64
    """padded input ids [B, T]"""
    lengths: Int64
    """tokens of each row [B]"""
    pad: int
    """id of padding"""
    sorted_labels: bool = False
    """several objectives share the batch, and labels are sorted by position"""

    def has(self, name: str) -> bool:
        """Return whether a set of the stream has a column."""
        return name in self.roles

    def flat(self, name: str) -> tuple[Int64, Int64]:
        """Return all values of a column, and the row of each."""
        return flatten(self.columns[name])

    def padded(self, name: str, pad: int) -> tuple[Int64, Int64]:
        """Return a column as a padded matrix, and its lengths."""
        return pad_rows(self.columns[name], pad)

    def scalars(self, name: str) -> Int64:
        """Return the single value of each row."""
        return scalar_column(self.columns[name])


def find_head_rules(roles: Mapping[str, Role]) -> dict[str, type[Head]]:
    """Return the columns with these roles from which heads build tensors, each with its head."""
    heads = {role.head for role in roles.values()} & {*HEADS.available()}
    classes = {head: HEADS.load_class(head) for head in sorted(heads)}
    return {
        name: head_class
        for head, head_class in classes.items()
        for name in head_class.columns
        if name in roles and roles[name].head == head
    }


def rows_of_choices(
    columns: Mapping[str, Ragged], roles: Mapping[str, Role]
) -> tuple[dict[str, Ragged], dict[str, Tensor]]:
    """Split multiple-choice examples into one row per choice.

    Rows are in the order of the examples, then of their choices. Filler becomes one empty row with
    label -100. The `input_ids` of an example are those of all choices end to end, or of a pair in
    both orders.

    Returns:
        the columns of the rows, and int64 `choices` [B] and `label` [B] of the examples.

    Example (an example of two choices, and filler):
        >>> lists = {"input_ids": [[7, 8, 9], []], "choice_starts": [[0, 2], []]}
        >>> lists |= {"choice": [[1], []]}
        >>> columns = {name: Ragged.from_lists(rows, np.int64) for name, rows in lists.items()}
        >>> rows, chosen = rows_of_choices(columns, {})
        >>> [row.tolist() for row in rows["input_ids"]]
        [[7, 8], [9], []]
        >>> chosen["choices"].tolist(), chosen["label"].tolist()
        ([2, 1], [1, -100])
    """
    # row bounds in the flat ids: the starts of all choices, and of examples without any
    ids = columns["input_ids"].values
    offsets = columns["input_ids"].offsets
    empty = empty_rows(len(offsets) - 1)
    starts, examples = flatten(columns.get("choice_starts", empty))
    counts = np.bincount(examples, minlength=len(offsets) - 1)
    begins = np.sort(np.concatenate((offsets[:-1][examples] + starts, offsets[:-1][counts == 0])))
    rows: dict[str, Ragged] = {"input_ids": Ragged(ids, np.append(begins, offsets[-1]))}
    # move stored positions from the example to the row that contains them
    for name, role in roles.items():
        if role.of == "input_ids" and not role.head and name in columns:
            positions, example = flatten(columns[name])
            positions += offsets[:-1][example]
            row = np.searchsorted(begins, positions, side="right") - 1
            sizes = np.bincount(row, minlength=len(begins))
            rows[name] = Ragged(positions - begins[row], np.concatenate(([0], np.cumsum(sizes))))

    label = scalar_column(columns.get("choice", empty), IGNORED)
    return rows, {
        "choices": torch.from_numpy(np.maximum(counts, 1)),
        "label": torch.from_numpy(label),
    }
