"""Rows of decoders beside encoders: the target shifted right, place ids, and the document of each place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch
from torch import Tensor

from pipeline.arrays import Int64
from train.stream.labels import stored_labels
from train.stream.padding import flatten, pad_rows, part_counts, restarting_positions
from train.stream.row_buffer import Column

__all__ = ["expanded_positions", "masked_rows", "target_rows"]

_STARTS: Final = "target_document_starts"


def target_rows(
    columns: Mapping[str, Column], tensors: Mapping[str, Tensor], begin: int | Int64, pad: int, apart: bool
) -> dict[str, Tensor]:
    """Return decoder rows: the target shifted right after `begin`; every target place is a label.

    A target that has a place in its source (MASS), `target_start`, keeps its places, and the source token before it
    opens the row. Place 0 means that the row has no such target. Where documents are kept apart, each has a row of its
    own inside the row: it is opened, and its places are counted, as if it were alone.

    Args:
        columns: `target_ids`; `target_start` and `target_document_starts` where there are any.
        tensors: of the source: `input_ids` and `position_ids`.
        begin: id that opens the rows, one for all or [B].
        pad: id of padding.
        apart: whether documents are kept apart.
    """
    targets, lengths = pad_rows(columns["target_ids"], pad)
    shape, place = targets.shape, np.arange(targets.shape[1])
    valid = place < lengths[:, None]
    inputs = np.empty_like(targets)
    inputs[:, 0], inputs[:, 1:] = begin, targets[:, :-1]
    positions, documents = None, None
    if apart:
        starts = part_counts(columns[_STARTS], *shape) if _STARTS in columns else np.zeros(shape, np.int64)
        documents = np.maximum(np.cumsum(starts, axis=1) - 1, 0)
        starts[:, 0] = 1
        rows, places = np.nonzero(starts)
        inputs[rows, places] = np.broadcast_to(begin, shape[:1])[rows]
        positions = restarting_positions(starts)
    if "target_start" in columns:
        positions = np.broadcast_to(place, shape) if positions is None else positions
        positions = _at_source(inputs, columns, tensors, positions)
    inputs[~valid] = pad
    index = np.flatnonzero(valid)
    found = _decoder(inputs, lengths, index, targets.reshape(-1)[index])
    if positions is not None:
        found["decoder_position_ids"] = torch.from_numpy(np.where(valid, positions, 0))
    if documents is not None:
        found["decoder_document_ids"] = torch.from_numpy(documents)
    return found


def _at_source(inputs: Int64, columns: Mapping[str, Column], tensors: Mapping[str, Tensor], positions: Int64) -> Int64:
    """Return the places that targets have in their sources; write the source token before each into `inputs`."""
    source, places = tensors["input_ids"].numpy(), tensors["position_ids"].numpy()
    starts, row = flatten(columns["target_start"])
    heads = np.zeros_like(starts)
    if _STARTS in columns:
        documents, in_row = flatten(columns[_STARTS])
        heads[np.isin(row, in_row)] = documents[np.isin(in_row, row)]
    begins = places[row, starts]
    inside = np.flatnonzero(begins)  # a target that opens its text has no token before it
    inputs[row[inside], heads[inside]] = source[row[inside], starts[inside] - 1]
    offsets = np.zeros_like(inputs)
    offsets[row, heads] = begins
    shifted: Int64 = positions + np.take_along_axis(offsets, np.arange(inputs.shape[1]) - positions, axis=1)
    return shifted


def masked_rows(
    columns: Mapping[str, Column],
    tensors: Mapping[str, Tensor],
    lengths: Int64,
    begin: int | Int64,
    pad: int,
    mask: int,
) -> dict[str, Tensor]:
    """Return decoder rows for masked places: the label before a place if it has one, else [MASK].

    The first place of a row has `begin`; where documents are kept apart, the first of each document.
    """
    rows, width = tensors["input_ids"].shape
    inputs = np.full((rows, width), mask, np.int64)
    labels = stored_labels(columns, width)
    index, ids = labels["label_index"].numpy(), labels["label_ids"].numpy()
    inside = index % width + 1 < np.repeat(lengths, width)[index]
    inputs.reshape(-1)[index[inside] + 1] = ids[inside]
    opening = np.zeros((rows, width), np.bool_)
    opening[:, 0] = True
    found = {}
    if "document_ids" in tensors:
        opening = tensors["position_ids"].numpy() == 0
        found = {"decoder_position_ids": tensors["position_ids"], "decoder_document_ids": tensors["document_ids"]}
    inputs = np.where(opening, np.broadcast_to(np.asarray(begin), rows)[:, None], inputs)
    inputs[np.arange(width) >= lengths[:, None]] = pad
    return _decoder(inputs, lengths, index, ids) | found


def _decoder(inputs: Int64, lengths: Int64, index: Int64, ids: Int64) -> dict[str, Tensor]:
    return {
        "decoder_input_ids": torch.from_numpy(inputs),
        "decoder_position_ids": expanded_positions(*inputs.shape),
        "decoder_lengths": torch.from_numpy(np.maximum(lengths, 1)),
        "label_index": torch.from_numpy(index),
        "label_ids": torch.from_numpy(ids),
    }


def expanded_positions(rows: int, width: int) -> Tensor:
    """Return place ids 0 .. width-1 for every row, one row in memory."""
    return torch.arange(width).expand(rows, width)
