"""A row with labels: its input, its original, the labels, and what other columns say of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.rows import Row
from tools.viewer.passages import Passages
from tools.viewer.pieces import PLAIN, Mark
from tools.viewer.view import Cell, Passage, Role, Sheet

__all__ = ["attention_sheets", "fragment_as_labels", "label_parts", "prefix_length", "prefix_marks"]

_READS: Final[Mapping[int, str]] = {
    0: "any position",
    1: "itself and the positions before it",
    2: "itself and the positions after it",
    3: "itself, the positions before it, and the prefix",
}


def label_parts(show: Passages, row: Row, markers: Mapping[int, str]) -> list[Passage | Sheet]:
    """Return the parts of a row with `label_positions` and `label_ids`.

    Args:
        show: makes passages of ids.
        row: an example.
        markers: boundaries in its input.
    """
    ids = row.columns["input_ids"].astype(np.int64)
    original, positions = ids.copy(), row.columns["label_positions"].astype(np.int64)
    original[positions] = row.columns["label_ids"]
    marks, originals = prefix_marks(row, "input_ids"), prefix_marks(row, "input_ids")
    rows: list[tuple[Cell, ...]] = []
    for position in positions.tolist():
        shown, label = int(ids[position]), int(original[position])
        role = _role(show, shown, label)
        marks[position] = Mark(role, 0, f"original {show.pieces.piece(label)!r}")
        originals[position] = Mark(role, 0, f"input {show.pieces.piece(shown)!r}")
        cells = (show.label(label, originals[position]), show.label(shown, marks[position]))
        rows.append((str(position), *cells, role))
    return [
        show.passage("input", ids, marks, markers),
        show.passage("original", original, originals, markers),
        Sheet(f"labels ({len(rows)})", ("position", "original", "input", "what"), tuple(rows)),
        *attention_sheets(row),
        *_beside(show, row, original),
    ]


def fragment_as_labels(row: Row) -> Row:
    """Return a row whose `target_ids` begin at `target_start` of its input as a row with labels."""
    target = row.columns["target_ids"]
    positions = int(row.columns["target_start"][0]) + np.arange(len(target))
    return Row(row.fixed, {"input_ids": row.columns["input_ids"], "label_positions": positions, "label_ids": target})


def attention_sheets(row: Row) -> list[Passage | Sheet]:
    """Return what a position may read, where the row restricts it."""
    if not _has(row, "attention"):
        return []
    facts = [("a position reads", _READS.get(int(row.columns["attention"][0]), "?"))]
    if prefix := prefix_length(row):
        facts.append(("last position of the prefix", str(prefix - 1)))
    return [Sheet("attention", (), tuple(facts))]


def prefix_length(row: Row) -> int:
    """Return the tokens that every position reads, 0 where the row has no prefix."""
    return int(row.columns["prefix_length"][0]) if _has(row, "prefix_length") else 0


def prefix_marks(row: Row, name: str) -> list[Mark]:
    """Return one mark for each token of a column; those of the prefix are marked as such."""
    prefix = prefix_length(row)
    return [Mark("prefix")] * prefix + [PLAIN] * (len(row.columns[name]) - prefix)


def _has(row: Row, name: str) -> bool:
    """Return whether the row has a value in that column; rows of other parts of a mixture are empty there."""
    return name in row.columns and len(row.columns[name]) > 0


def _role(show: Passages, shown: int, label: int) -> Role:
    if shown == show.pieces.vocabulary.specials.get("mask", -1):
        return "masked"
    return "kept" if shown == label else "replaced"


def _beside(show: Passages, row: Row, original: NDArray[np.int64]) -> list[Passage | Sheet]:
    """Return spans and the second view, where the row has their columns."""
    parts: list[Passage | Sheet] = []
    columns = row.columns
    if _has(row, "span_starts"):
        parts.append(_spans(show, columns, original))
    if _has(row, "crop_start"):
        first, length = int(columns["crop_start"][0]), int(columns["crop_length"][0])
        view = np.concatenate((original[:1], original[1 + first : 1 + first + length], original[-1:]))
        parts.append(show.passage(f"second view, from content token {first}", view))
    return parts


def _spans(show: Passages, columns: Mapping[str, NDArray[Any]], original: NDArray[np.int64]) -> Sheet:
    """Return each span with the tokens on both sides that predict it."""
    rows: list[tuple[Cell, ...]] = []
    spans = zip(columns["span_starts"].tolist(), columns["span_lengths"].tolist(), strict=True)
    for number, (start, length) in enumerate(spans):
        end = start + length
        left, right = original[start - 1 : start], original[end : end + 1]
        span = show.cell(original[start:end], Mark("span", number))
        rows.append((str(start), show.cell(left), span, show.cell(right)))
    return Sheet(f"spans ({len(rows)})", ("position", "left boundary", "span", "right boundary"), tuple(rows))
