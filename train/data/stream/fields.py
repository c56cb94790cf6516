"""Build the tensors of columns from their declared roles: one value per row, label or token."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clozeline.arrays import Int64
from clozeline.columns import BatchField, Per, Role
from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.head_features import HeadBatch
from clozeline.train.data.stream.padding import flatten, pad_rows, part_numbers, scalar_column


def build_fields(fields: tuple[BatchField, ...], role: Role, batch: HeadBatch) -> dict[str, Tensor]:
    """Return the tensors that `Role.fields` declares for a column.

    A row, a label or a token without a value gets the filler of the field.
    """
    field = fields[0]
    column = batch.columns[field.name]
    if role.use == "ids":
        ids, lengths = pad_rows(column, batch.pad)
        return {field.name: torch.from_numpy(ids), fields[-1].name: torch.from_numpy(lengths)}
    build = _build_segment_indices if role.use == "start" else _BUILDERS[field.per]
    return {field.name: torch.from_numpy(build(field, role, column, batch))}


def _build_row_values(
    field: BatchField, role: Role, column: Ragged, batch: HeadBatch
) -> NDArray[np.generic]:
    return scalar_column(column, field.filler, field.dtype)


def _build_padded_lists(
    field: BatchField, role: Role, column: Ragged, batch: HeadBatch
) -> NDArray[np.generic]:
    return pad_rows(column, field.filler, field.dtype)[0]


def _build_entry_values(
    field: BatchField, role: Role, column: Ragged, batch: HeadBatch
) -> NDArray[np.generic]:
    """Return one value for each entry of a column; positions become indices into [B * T]."""
    if role.use != "position":
        return column.values.astype(field.dtype)
    positions, rows = flatten(column)
    width = max(1, int(batch.columns[role.of].lengths.max()))
    return rows * width + positions + (_left_padding(batch)[rows] if field.below == "tokens" else 0)


def _build_token_values(
    field: BatchField, role: Role, column: Ragged, batch: HeadBatch
) -> NDArray[np.generic]:
    """Return a value for each token [B, T]."""
    matrix: NDArray[np.generic] = np.full(batch.ids.shape, field.filler, field.dtype)
    matrix[np.arange(matrix.shape[1]) < column.lengths[:, None]] = column.values
    return _move_right(matrix, batch)


def _build_label_values(
    field: BatchField, role: Role, column: Ragged, batch: HeadBatch
) -> NDArray[np.generic]:
    """Return a value for each label [N], in the order of `label_index`.

    Labels in rows without values, such as rows of another objective, get the filler.
    """
    # compare the numbers of values and labels in each row
    values = column.values.astype(field.dtype)
    index = (
        batch.tensors["label_index"].numpy()
        if "label_index" in batch.tensors
        else np.zeros(0, np.int64)
    )

    labeled_ids = batch.tensors.get("decoder_input_ids", batch.tensors["input_ids"])
    rows_of_labels = index // labeled_ids.shape[1]
    counts = np.bincount(rows_of_labels, minlength=len(column))
    has_values = column.lengths > 0
    if (wrong := np.flatnonzero(has_values & (counts != column.lengths))).size:
        row = int(wrong[0])
        raise IntegrityError(
            f"{field.name}: expected a value for each of the {counts[row]} labels of a row, got "
            f"{column.lengths[row]}: make the set again with as many as {role.of} has"
        )

    # put the values in the order of the labels
    if batch.sorted_labels:  # labels of several objectives are sorted by position
        positions, rows = flatten(batch.columns[role.of])
        values = values[np.lexsort((positions, rows))]

    label_values = np.full(len(index), field.filler, field.dtype)
    label_values[has_values[rows_of_labels]] = values
    return label_values


def _build_segment_indices(
    field: BatchField, role: Role, column: Ragged, batch: HeadBatch
) -> NDArray[np.generic]:
    """Return the segment index of each token in the column that the role refers to (`role.of`)."""
    lengths = batch.columns[role.of].lengths
    indices = part_numbers(column, lengths, max(1, int(lengths.max())))
    return _move_right(indices, batch) if field.per == "token" else indices


def _left_padding(batch: HeadBatch) -> Int64:
    if "left_padding" not in batch.tensors:
        return np.zeros(len(batch.lengths), np.int64)
    padding: Int64 = batch.tensors["left_padding"].numpy()
    return padding


def _move_right(matrix: NDArray[np.generic], batch: HeadBatch) -> NDArray[np.generic]:
    """Move the values of tokens to the right in rows that are padded on the left."""
    source = (np.arange(matrix.shape[1]) - _left_padding(batch)[:, None]) % matrix.shape[1]
    return np.take_along_axis(matrix, source, axis=1)


_BUILDERS: Final[
    Mapping[Per, Callable[[BatchField, Role, Ragged, HeadBatch], NDArray[np.generic]]]
] = {
    "row": _build_row_values,
    "segment": _build_padded_lists,
    "entry": _build_entry_values,
    "token": _build_token_values,
    "label": _build_label_values,
}
