"""A row as passages and sheets, chosen by the columns that the row has."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.rows import Row
from tools.viewer.label_parts import attention_sheets, fragment_as_labels, label_parts, prefix_length, prefix_marks
from tools.viewer.noise_parts import noise_parts
from tools.viewer.pair_parts import number_sheets, two_texts
from tools.viewer.passages import Passages
from tools.viewer.prediction_parts import prediction_parts
from tools.viewer.sentinel_parts import sentinel_parts
from tools.viewer.traces import has_noise
from tools.viewer.view import Passage, Sheet

__all__ = ["row_parts"]

_TEXTS: Final = ("input_ids", "ids", "token_ids")
"""The column of text by which each kind of set begins."""
_BOUNDARIES: Final = {"sentence_starts": "|", "segment_starts": "‖", "document_starts": "▌"}


def row_parts(show: Passages, row: Row) -> list[Passage | Sheet]:
    """Return everything to show of a row."""
    both = two_texts(show, row, _markers(row, pair=True))
    return [*(both or _text_parts(show, row)), *number_sheets(row)]


def _text_parts(show: Passages, row: Row) -> list[Passage | Sheet]:
    columns = row.columns
    if "label_positions" in columns and "label_ids" in columns:
        return label_parts(show, row, _markers(row))
    if "prediction_order" in columns:
        return prediction_parts(show, row, _markers(row))
    if "target_start" in columns:
        return label_parts(show, fragment_as_labels(row), _markers(row))
    ids, target = _input_and_target(row)
    if np.isin(ids, show.pieces.vocabulary.sentinels).any():
        return sentinel_parts(show, ids, target)
    if "target_ids" in columns and has_noise(columns):
        return noise_parts(show, row)
    if "target_ids" in columns:
        return [show.passage(title, columns[f"{title}_ids"]) for title in ("input", "target")]
    return _plain(show, row)


def _input_and_target(row: Row) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return two columns, or one cut after its prefix; both empty where the row has no target."""
    columns = row.columns
    if "target_ids" in columns:
        return columns["input_ids"].astype(np.int64), columns["target_ids"].astype(np.int64)
    if prefix := prefix_length(row):
        ids = columns["input_ids"].astype(np.int64)
        return ids[:prefix], ids[prefix:]
    return np.empty(0, np.int64), np.empty(0, np.int64)


def _markers(row: Row, *, pair: bool = False) -> dict[int, str]:
    """Return the signs of the boundaries in the row's first text, by position."""
    if "target_ids" in row.columns and not pair:
        return {}
    named = [(name, sign) for name, sign in _BOUNDARIES.items() if name in row.columns]
    return {int(position): sign for name, sign in named for position in row.columns[name]}


def _plain(show: Passages, row: Row) -> list[Passage | Sheet]:
    name = next(name for name in _TEXTS if name in row.columns)
    passage = show.passage(name, row.columns[name], prefix_marks(row, name), _markers(row))
    return [passage, *attention_sheets(row)]
