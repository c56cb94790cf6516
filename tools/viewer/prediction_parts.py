"""A row with an order of prediction: its input, and what each predicted token can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from pipeline.rows import Row
from tools.viewer.passages import Passages
from tools.viewer.pieces import PLAIN, Mark
from tools.viewer.view import Cell, Passage, Sheet, Token

__all__ = ["prediction_parts"]

_CONTEXT: Final = 5
"""Tokens shown on either side of a predicted one."""
_HIDDEN: Final = (Token("▁", "marker", 0, "not seen yet"),)


def prediction_parts(show: Passages, row: Row, markers: Mapping[int, str]) -> list[Passage | Sheet]:
    """Return the parts of a row with `prediction_order`.

    Args:
        show: makes passages of ids.
        row: an example.
        markers: boundaries in its input.
    """
    ids, order = row.columns["input_ids"].astype(np.int64), row.columns["prediction_order"].tolist()
    marks = [PLAIN] * len(ids)
    for rank, position in enumerate(order):
        marks[position] = Mark("predicted", rank, f"predicted as number {rank + 1}")
    rows: list[tuple[Cell, ...]] = []
    for rank, position in enumerate(order):

        def read(first: int, last: int, unseen: frozenset[int] = frozenset(order[rank:])) -> Cell:
            cells = [_HIDDEN if at in unseen else show.label(int(ids[at]), marks[at]) for at in range(first, last)]
            return tuple(token for cell in cells for token in cell)

        left = read(max(0, position - _CONTEXT), position)
        right = read(position + 1, min(len(ids), position + 1 + _CONTEXT))
        rows.append((str(rank + 1), str(position), left, show.label(int(ids[position]), marks[position]), right))
    header = ("number", "position", "reads before it", "token", "reads after it")
    return [
        show.passage("input", ids, marks, markers),
        Sheet(f"order of prediction ({len(rows)})", header, tuple(rows)),
    ]
