"""Build per-token tensors of segments: type ids, attention-mode types, languages, restarting position ids."""

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch
from torch import Tensor

from clozeline.arrays import Bool, Int64
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.padding import flatten, part_numbers, restarting_positions, start_marks

_TYPES_OF_MODE: Final = np.array([0, 2, 3, 4])
_PREFIX_MODE: Final = 3


def segment_tensors(
    columns: Mapping[str, Ragged], lengths: Int64, width: int, restarts: bool | Bool
) -> dict[str, Tensor]:
    """Return tensors [B, T] from `segment_starts` and `languages`, int64; absent columns give none.

    `type_ids` are segment indices. `languages` are language codes, stored per row or per segment. `position_ids`
    restart at 0 with every segment of the rows `restarts`; without any there are none.
    """
    numbers = np.zeros((len(lengths), width), np.int64)
    tensors = {}
    if "segment_starts" in columns:
        numbers = part_numbers(columns["segment_starts"], lengths, width)
        tensors["type_ids"] = torch.from_numpy(numbers)
        if np.any(restarts):
            marks = start_marks(columns["segment_starts"], *numbers.shape) * np.reshape(restarts, (-1, 1))
            tensors["position_ids"] = torch.from_numpy(restarting_positions(marks))
    if "languages" in columns:
        # table [B, most codes in a row]: the codes of each row by segment; 0 in filler rows
        codes, rows = flatten(columns["languages"])
        counts = np.bincount(rows, minlength=len(numbers))
        table = np.zeros((len(numbers), max(1, int(counts.max()))), np.int64)
        table[rows, np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)] = codes
        segment = np.minimum(numbers, np.maximum(counts, 1)[:, None] - 1)
        tensors["languages"] = torch.from_numpy(np.take_along_axis(table, segment, axis=1))
    return tensors


def types_of_modes(mode: Int64, prefix: Int64, segments: Tensor | None, lengths: Int64, width: int) -> Int64:
    """Return the segment types that mark UniLM's attention modes (arXiv 1905.03197 §2.1).

    The segment index in bidirectional rows, 2 left-to-right, 3 right-to-left, 4 in a prefix and 5 after it; 0 on
    padding.
    """
    columns = np.arange(width)
    types: Int64 = _TYPES_OF_MODE[mode][:, None] + ((mode == _PREFIX_MODE)[:, None] & (columns >= prefix[:, None]))
    types[columns >= lengths[:, None]] = 0
    return types if segments is None else np.where(mode[:, None] == 0, segments.numpy(), types)
