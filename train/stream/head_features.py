"""Tensors that single heads of encoders read: classes of rows, the neighbours of spans, a second view of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from model.loss import IGNORED
from pipeline.arrays import Int64
from pipeline.rows import Ragged
from train.stream.padding import flatten, one_a_row, pad_rows
from train.stream.row_buffer import Column

__all__ = ["ANSWER_COLUMNS", "HEAD_OF_COLUMN", "head_tensors"]

HEAD_OF_COLUMN: Final = {
    "sentence_label": "sentence",
    "span_starts": "span_boundary",
    "span_lengths": "span_boundary",
    "input_ids_b": "similarity",
    "crop_start": "similarity",
    "crop_length": "similarity",
    "label": "classification",
    "target": "regression",
    "tag_positions": "tagging",
    "tags": "tagging",
    "answer_span": "span",
    "answer_places": "span",
    "choice": "multiple_choice",
    "choice_starts": "multiple_choice",
}
"""List columns from which single heads learn; all but the answers below in rows of encoders alone."""
ANSWER_COLUMNS: Final = frozenset({
    *("label", "target", "tag_positions", "tags", "answer_span", "answer_places", "choice", "choice_starts")
})  # fmt: skip
"""Those of them that hold the answers of tasks, whatever the architecture."""


def head_tensors(
    read: tuple[str, ...],
    columns: Mapping[str, Column],
    tensors: Mapping[str, Tensor],
    ids: Int64,
    lengths: Int64,
    pad: int,
) -> dict[str, Tensor]:
    """Return the tensors of the columns above, int64 but for `target` and `answer_places`.

    `label` [B], -100 in rows without one; `target` [B] float32, NaN in rows without one. `answer_start` and
    `answer_end` [B], -100 in rows without an answer; `answer_places` [B, T] bool.
    `sentence_label` [B], -100 in rows without one. `span_left`, `span_right` [N], places in B * T on both sides of the
    span of each label, and `span_offset` [N], the label's place in it, -1 for a label outside of spans.
    `input_ids_b`, `position_ids_b` [B, Tb] and `lengths_b` [B], 0 in rows without a second view: the stored one, or the
    frame around a crop of the original row.

    Args:
        read: columns that the sets of the stream hold.
        columns: those of this micro-batch; one that is absent is empty in all rows.
        tensors: of the batch, its labels among them.
        ids: padded input ids [B, T].
        lengths: tokens of each row [B].
        pad: padding id.
    """
    empty = Ragged(np.zeros(0, np.int64), np.zeros(len(ids) + 1, np.int64))
    given = {name: columns.get(name, empty) for name in (*read, "label_positions", "label_ids")}
    added: dict[str, Tensor] = {}
    if "sentence_label" in read:
        added["sentence_label"] = torch.from_numpy(one_a_row(given["sentence_label"], IGNORED))
    if "label" in read:
        added["label"] = torch.from_numpy(one_a_row(given["label"], IGNORED))
    if "target" in read:
        added["target"] = _numbers(given["target"])
    if "answer_span" in read:
        added |= _answers(given["answer_span"], given["answer_places"], ids.shape)
    if "span_starts" in read:
        added |= _neighbours(given["span_starts"], given["span_lengths"], tensors["label_index"].numpy(), ids.shape)
    views = [pad_rows(given["input_ids_b"], pad)] if "input_ids_b" in read else []
    if "crop_start" in read:
        original = ids.astype(np.int64)
        positions, rows = flatten(given["label_positions"])
        original[rows, positions] = flatten(given["label_ids"])[0]
        start, length = (one_a_row(given[name]) for name in ("crop_start", "crop_length"))
        views.append(_cropped(original, lengths, start, length, pad))
    return added | _second_view(views, pad) if views else added


def _numbers(column: Column) -> Tensor:
    """Return one number a row, float32; NaN for rows without."""
    if not isinstance(column, Ragged):
        return torch.from_numpy(column[:, 0].astype(np.float32))
    numbers = np.full(len(column), np.nan, np.float32)
    numbers[column.lengths > 0] = column.values
    return torch.from_numpy(numbers)


def _answers(spans: Column, places: Column, shape: tuple[int, ...]) -> dict[str, Tensor]:
    """Return first and last places of answers [B], -100 in rows without, and the places allowed [B, T] bool."""
    ends, rows = flatten(spans)
    found = np.full((shape[0], 2), IGNORED, np.int64)
    found[rows[::2]] = ends.reshape(-1, 2)
    allowed = np.zeros(shape, np.bool_)
    columns, row = flatten(places)
    allowed[row, columns] = True
    return {
        "answer_start": torch.from_numpy(found[:, 0].copy()),
        "answer_end": torch.from_numpy(found[:, 1].copy()),
        "answer_places": torch.from_numpy(allowed),
    }


def _neighbours(starts: Column, lengths: Column, labels: Int64, shape: tuple[int, ...]) -> dict[str, Tensor]:
    """Return both neighbours and the offset of each label, given the labels' places in B * T."""
    first, rows = flatten(starts)
    sizes, _ = flatten(lengths)
    first = first + rows * shape[1]
    offset = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places = np.repeat(first, sizes) + offset
    found = np.zeros((3, shape[0] * shape[1]), np.int64)
    found[2] = -1
    found[:, places] = np.repeat(first - 1, sizes), np.repeat(first + sizes, sizes), offset
    return dict(zip(("span_left", "span_right", "span_offset"), torch.from_numpy(found[:, labels]), strict=True))


def _cropped(original: Int64, lengths: Int64, start: Int64, length: Int64, pad: int) -> tuple[Int64, Int64]:
    """Return `[CLS] x[crop] [SEP]` of rows `[CLS] x [SEP]`, padded, and its lengths; 0 where `length` is 0."""
    sizes = np.where(length > 0, length + 2, 0)
    place = np.arange(max(1, int(sizes.max())))
    source = np.where(place == 0, 0, place + start[:, None])
    source = np.where(place == sizes[:, None] - 1, lengths[:, None] - 1, source)
    inside = place < sizes[:, None]
    view = np.take_along_axis(original, np.where(inside, source, 0), axis=1)
    return np.where(inside, view, pad), sizes


def _second_view(views: Sequence[tuple[Int64, Int64]], pad: int) -> dict[str, Tensor]:
    """Return the tensors of views [B, Tb] with their lengths; each row has at most one of them."""
    lengths: Int64 = np.sum([sizes for _, sizes in views], axis=0)
    ids = np.full((len(lengths), max(view.shape[1] for view, _ in views)), pad, np.int64)
    for view, sizes in views:
        ids[sizes > 0, : view.shape[1]] = view[sizes > 0]
    return {
        "input_ids_b": torch.from_numpy(ids),
        "position_ids_b": torch.arange(ids.shape[1]).expand(*ids.shape),
        "lengths_b": torch.from_numpy(lengths),
    }
