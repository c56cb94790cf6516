"""What the columns beside a masked block say: who reads whom, spans, the order of prediction, a second view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.rows import Row
from tools.viewer.pieces import PLAIN, Mark
from tools.viewer.view import Cell, Passage, Sheet, Token

if TYPE_CHECKING:
    from tools.viewer.row_parts import RowReader

__all__ = ["prediction_parts", "prefix_of", "sheets_beside_labels"]

Ints = NDArray[np.int64]

_CONTEXT: Final = 5
"""Tokens shown on either side of a predicted one."""
_HIDDEN: Final = (Token("▁", "marker", 0, "not seen yet"),)
_READS: Final[Mapping[int, str]] = {
    0: "any place",
    1: "itself and the places before it",
    2: "itself and the places behind it",
    3: "itself, the places before it, and the prefix",
}


def prefix_of(row: Row) -> int:
    """Tokens of the row that every place reads, 0 where the row has none."""
    return int(row.columns["prefix_length"][0]) if _has(row, "prefix_length") else 0


def _has(row: Row, name: str) -> bool:
    """Whether the row has something in that column: rows of other parts of a mixture are empty there."""
    return name in row.columns and len(row.columns[name]) > 0


def sheets_beside_labels(reader: RowReader, row: Row, original: Ints) -> list[Passage | Sheet]:
    """For a row with labels: attention, spans, and the second view, where it has their columns.

    Args:
        reader: turns ids to cells.
        row: an example with `label_positions`.
        original: its framed original.
    """
    parts: list[Passage | Sheet] = []
    columns = row.columns
    if _has(row, "attention"):
        facts = [("a place reads", _READS.get(int(columns["attention"][0]), "?"))]
        if prefix := prefix_of(row):
            facts.append(("the prefix ends behind", f"place {prefix - 1}"))
        parts.append(Sheet("attention", (), tuple(facts)))
    if _has(row, "span_starts"):
        parts.append(_spans(reader, columns, original))
    if _has(row, "crop_start"):
        first, length = int(columns["crop_start"][0]), int(columns["crop_length"][0])
        view = np.concatenate((original[:1], original[1 + first : 1 + first + length], original[-1:]))
        parts.append(reader.passage(f"second view, from content token {first}", view))
    return parts


def _spans(reader: RowReader, columns: Mapping[str, NDArray[Any]], original: Ints) -> Sheet:
    """Each span with the tokens on both sides that predict it."""
    rows: list[tuple[Cell, ...]] = []
    spans = zip(columns["span_starts"].tolist(), columns["span_lengths"].tolist(), strict=True)
    for number, (start, length) in enumerate(spans):
        end = start + length
        left, right = original[start - 1 : start], original[end : end + 1]
        span = reader.cell(original[start:end], Mark("span", number))
        rows.append((str(start), reader.cell(left), span, reader.cell(right)))
    return Sheet(f"spans ({len(rows)})", ("place", "left boundary", "span", "right boundary"), tuple(rows))


def prediction_parts(reader: RowReader, row: Row, markers: dict[int, str]) -> list[Passage | Sheet]:
    """For a row with `prediction_order`: the row with what is predicted, and the order, with what each can read."""
    ids, order = row.columns["input_ids"].astype(np.int64), row.columns["prediction_order"].tolist()
    marks = [PLAIN] * len(ids)
    for rank, place in enumerate(order):
        marks[place] = Mark("predicted", rank, f"predicted as number {rank + 1}")
    rows: list[tuple[Cell, ...]] = []
    for rank, place in enumerate(order):

        def read(first: int, last: int, unseen: frozenset[int] = frozenset(order[rank:])) -> Cell:
            cells = [_HIDDEN if at in unseen else reader.label(int(ids[at]), marks[at]) for at in range(first, last)]
            return tuple(token for cell in cells for token in cell)

        left, right = read(max(0, place - _CONTEXT), place), read(place + 1, min(len(ids), place + 1 + _CONTEXT))
        rows.append((str(rank + 1), str(place), left, reader.label(int(ids[place]), marks[place]), right))
    header = ("number", "place", "reads before it", "token", "reads behind it")
    return [
        reader.passage("input", ids, marks, markers),
        Sheet(f"order of prediction ({len(rows)})", header, tuple(rows)),
    ]
