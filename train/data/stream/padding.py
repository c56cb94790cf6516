"""Pad ragged columns to matrices, and build ids of positions, documents, segments, languages."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from clozeline.arrays import Bool, Int64
from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Ragged

_CLASS_TYPE: Final = 2
_TYPES_OF_MODE: Final = np.array([0, 2, 3, 4])
_PREFIX_MODE: Final = 3


def expand_positions(rows: int, width: int) -> Tensor:
    """Return position ids [rows, width]; all rows share memory."""
    row = np.arange(width)  # views by numpy take a fifth of the time of torch's
    return torch.from_numpy(np.ndarray((rows, width), row.dtype, row, strides=(0, row.itemsize)))


def pad_rows(column: Ragged, pad: float, dtype: DTypeLike = np.int64) -> tuple[Int64, Int64]:
    """Return rows as a padded matrix [B, max(1, longest)], and their lengths [B]."""
    lengths = column.lengths
    width = max(1, int(lengths.max()))
    if len(column.values) == len(column) * width:
        return column.values.astype(dtype).reshape(-1, width), lengths
    matrix = np.full((len(column), width), pad, dtype)
    # the mask selects in row order, the order of the values
    matrix[np.arange(width) < lengths[:, None]] = column.values
    return matrix, lengths


def empty_rows(count: int, dtype: DTypeLike = np.int64) -> Ragged:
    """Return a column in which no row has a value."""
    return Ragged(np.zeros(0, dtype), np.zeros(count + 1, np.int64))


def flatten(column: Ragged) -> tuple[Int64, Int64]:
    """Return all values [N] in row order, and the row of each value [N]."""
    return column.values.astype(np.int64), np.repeat(np.arange(len(column)), column.lengths)


def scalar_column(column: Ragged, missing: float = 0, dtype: DTypeLike = np.int64) -> NDArray[Any]:
    """Return the single value of each row [B]; `missing` for rows without a value.

    Raises:
        IntegrityError: a row has several values.
    """
    counts = column.lengths
    if (most := int(counts.max())) > 1:
        raise IntegrityError(
            f"expected one value of this column in each row, got {most}: write one label per row"
        )
    values = np.full(len(column), missing, dtype)
    values[counts > 0] = column.values
    return values


def start_marks(column: Ragged, rows: int, width: int) -> Int64:
    """Return 1 where a part starts [rows, width]; a part after the last position has no mark."""
    values, row = flatten(column)
    marks = np.zeros((rows, width + 1), np.int64)
    marks[row, values] = 1
    return marks[:, :width]


def part_counts(column: Ragged, rows: int, width: int) -> Int64:
    """Count the parts that start at each position [rows, width].

    Of several parts at one position, all but the last are empty.
    """
    values, row = flatten(column)
    counts = np.bincount(row * (width + 1) + values, minlength=rows * (width + 1))
    return counts.reshape(rows, width + 1)[:, :width]


def restarting_positions(starts: Int64) -> Int64:
    """Return position ids that restart at 0 at every mark [rows, width]."""
    columns = np.arange(starts.shape[1])
    restarted: Int64 = columns - np.maximum.accumulate(np.where(starts > 0, columns, 0), axis=1)
    return restarted


def document_bounds(starts: Int64, lengths: Int64) -> Int64:
    """Return the document bounds in the flattened batch; the padding of a row is a document."""
    marks = starts.copy()
    marks[:, 0] = 1
    padded = np.flatnonzero(lengths < starts.shape[1])
    marks[padded, lengths[padded]] = 1
    return np.append(np.flatnonzero(marks), marks.size)


def paired_bounds(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the document bounds of both sides of an encoder-decoder.

    Names of the target's bounds start with `decoder_`. Both sides have the same documents, which
    cross-attention reads in pairs: a document that one side lacks is empty there. The padding of a
    source is a document that no target reads; the padding of a target belongs to its last document.

    Example (two documents and one token of padding, of which the second has no target):
        >>> ids = {"document_ids": torch.tensor([[0, 0, 1, 1]])}
        >>> ids |= {"decoder_document_ids": torch.tensor([[0, 0, 0]])}
        >>> found = paired_bounds({**ids, "lengths": torch.tensor([3])})
        >>> found["cu_seqlens"].tolist(), found["decoder_cu_seqlens"].tolist()
        ([0, 2, 3, 4], [0, 3, 3, 3])
    """
    source, target = (tensors[name].numpy() for name in ("document_ids", "decoder_document_ids"))
    padding = max(source.max(), target.max()) + 1
    in_order = np.arange(source.shape[1])
    lengths = tensors["lengths"].numpy()
    source = np.where(in_order < lengths[:, None], source, padding)

    # sizes of the documents of both sides [2, documents], in the order of the rows, without
    # documents that neither side has
    first = np.arange(len(source))[:, None] * (padding + 1)
    most = len(source) * (padding + 1)
    sizes = np.stack(
        [np.bincount((first + ids).ravel(), minlength=most) for ids in (source, target)]
    )
    sizes = sizes[:, sizes.any(axis=0)]
    bounds = np.pad(sizes.cumsum(axis=1), ((0, 0), (1, 0)))
    return {**bound_tensors(bounds[0]), **bound_tensors(bounds[1], "decoder_")}


def bound_tensors(bounds: Int64, side: str = "") -> dict[str, Tensor]:
    """Return `cu_seqlens` and `max_seqlen` for kernels over flat rows."""
    longest = torch.tensor(int(np.diff(bounds).max()))
    return {
        f"{side}cu_seqlens": torch.from_numpy(bounds.astype(np.int32)),
        f"{side}max_seqlen": longest,
    }


def part_numbers(column: Ragged, lengths: Int64, width: int) -> Int64:
    """Return the index of each token's part [B, width]; 0 on padding."""
    numbers: Int64 = np.maximum(np.cumsum(start_marks(column, len(lengths), width), axis=1) - 1, 0)
    numbers[np.arange(width) >= lengths[:, None]] = 0
    return numbers


def segment_tensors(
    columns: Mapping[str, Ragged], lengths: Int64, width: int, restarts: bool | Bool
) -> dict[str, Tensor]:
    """Return int64 tensors [B, T] from `segment_starts` and `languages`, if there are such columns.

    `type_ids` are segment indices. `languages` are language codes, stored per row or per segment.
    `position_ids` restart at 0 with every segment of the rows `restarts`; without such rows there
    are none.
    """
    # segments
    numbers = np.zeros((len(lengths), width), np.int64)
    tensors = {}

    if "segment_starts" in columns:
        numbers = part_numbers(columns["segment_starts"], lengths, width)
        tensors["type_ids"] = torch.from_numpy(numbers)
        if np.any(restarts):
            marks = start_marks(columns["segment_starts"], *numbers.shape) * np.reshape(
                restarts, (-1, 1)
            )
            tensors["position_ids"] = torch.from_numpy(restarting_positions(marks))

    # languages
    if "languages" in columns:
        # table [B, most codes in a row]: the codes of each row by segment; 0 in filler rows
        codes, rows = flatten(columns["languages"])
        counts = np.bincount(rows, minlength=len(numbers))
        table = np.zeros((len(numbers), max(1, int(counts.max()))), np.int64)
        table[rows, np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)] = codes
        segment = np.minimum(numbers, np.maximum(counts, 1)[:, None] - 1)
        tensors["languages"] = torch.from_numpy(np.take_along_axis(table, segment, axis=1))

    return tensors


def types_of_modes(
    mode: Int64, prefix: Int64, segments: Tensor | None, lengths: Int64, width: int
) -> Int64:
    """Return the segment types that mark UniLM's attention modes (arXiv 1905.03197 §2.1).

    The segment index in bidirectional rows, 2 left-to-right, 3 right-to-left, 4 in a prefix and 5
    after it; 0 on padding.
    """
    columns = np.arange(width)
    types: Int64 = _TYPES_OF_MODE[mode][:, None] + (
        (mode == _PREFIX_MODE)[:, None] & (columns >= prefix[:, None])
    )
    types[columns >= lengths[:, None]] = 0
    return types if segments is None else np.where(mode[:, None] == 0, segments.numpy(), types)


def pad_left(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Move the padding of rows from their end to their start, for XLNet (arXiv 1906.08237).

    Every matrix has the shape [B, T]. `left_padding` [B] counts the padding of each row. The last
    token, [CLS], gets the segment type 2.

    Example:
        >>> ids = torch.tensor([[7, 8, 3, 4], [9, 3, 4, 0]])
        >>> moved = pad_left({"input_ids": ids, "lengths": torch.tensor([4, 3])})
        >>> moved["input_ids"][1].tolist(), moved["type_ids"][1].tolist()
        ([0, 9, 3, 4], [0, 0, 0, 2])
        >>> moved["left_padding"].tolist()
        [0, 1]
    """
    # [CLS], the last token of each row, has a separate segment type
    rows, width = tensors["input_ids"].shape
    lengths = tensors["lengths"].numpy()
    types = (
        tensors["type_ids"].numpy().copy()
        if "type_ids" in tensors
        else np.zeros((rows, width), np.int64)
    )

    types[np.arange(rows), lengths - 1] = _CLASS_TYPE
    moved = {**tensors, "type_ids": torch.from_numpy(types)}

    # rotate each row to the right by the number of padding tokens
    padding = width - lengths
    source = (np.arange(width) - padding[:, None]) % width
    for name in [name for name, tensor in moved.items() if tensor.dim() > 1]:
        moved[name] = torch.from_numpy(np.take_along_axis(moved[name].numpy(), source, axis=1))
    moved["left_padding"] = torch.from_numpy(padding)

    # shift labels [N], flat indices into B * T, with their row
    if "label_index" in tensors:
        index = tensors["label_index"]
        moved["label_index"] = index + moved["left_padding"][index // width]

    if "document_ids" in tensors:  # in padding, the position ids of the last document continue
        bounds = document_bounds(
            (moved["position_ids"].numpy() == 0).astype(np.int64), np.full(rows, width)
        )
        moved |= bound_tensors(bounds)

    return moved
