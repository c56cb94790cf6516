"""A row with sentinels: each beside its span, and the original put together again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import Int64
from tools.viewer.passages import Passages
from tools.viewer.pieces import PLAIN, Mark, Pieces
from tools.viewer.view import Cell, Passage, Sheet

__all__ = ["sentinel_parts", "sentinel_spans", "without_end"]


def sentinel_parts(show: Passages, ids: Int64, target: Int64) -> list[Passage | Sheet]:
    """Return the parts of an input with sentinels and the target with their spans."""
    sentinels = show.pieces.vocabulary.sentinels
    rank = {token: number for number, token in enumerate(sentinels)}
    spans = sentinel_spans(without_end(show.pieces, target), sentinels)
    original: list[int] = []
    originals: list[Mark] = []
    rows: list[tuple[Cell, ...]] = []
    for position, token in enumerate(ids.tolist()):
        if token not in rank:
            original.append(token)
            originals.append(PLAIN)
            continue
        number = rank[token]
        span = target[spans.get(number, np.empty(0, np.int64))]
        original += span.tolist()
        originals += [Mark("span", number, f"after {show.pieces.piece(token)} in the target")] * len(span)
        before, after = show.around(ids, position)
        sentinel = show.cell(ids[position : position + 1], Mark("sentinel", number))
        rows.append((sentinel, before, show.cell(span, Mark("span", number)), after))
    return [
        show.passage("input", ids, _sentinel_marks(ids, rank)),
        show.passage("target", target, _target_marks(target, spans, rank)),
        show.passage("original", np.array(original), originals),
        Sheet(f"spans ({len(rows)})", ("sentinel", "before", "span", "after"), tuple(rows)),
    ]


def sentinel_spans(target: NDArray[Any], sentinels: tuple[int, ...]) -> dict[int, Int64]:
    """Return the positions in a target of the tokens after each sentinel, by the sentinel's rank."""
    rank = {token: number for number, token in enumerate(sentinels)}
    found: dict[int, list[int]] = {}
    current: list[int] | None = None
    for position, token in enumerate(target.tolist()):
        if token in rank:
            current = found.setdefault(rank[token], [])
        elif current is not None:
            current.append(position)
    return {number: np.array(positions, dtype=np.int64) for number, positions in found.items()}


def without_end(pieces: Pieces, target: Int64) -> Int64:
    """Return a target without its end token."""
    end = pieces.vocabulary.specials.get("eos")
    return target[:-1] if len(target) and int(target[-1]) == end else target


def _sentinel_marks(ids: Int64, rank: dict[int, int]) -> list[Mark]:
    return [Mark("sentinel", rank[token]) if token in rank else PLAIN for token in ids.tolist()]


def _target_marks(target: Int64, spans: dict[int, Int64], rank: dict[int, int]) -> list[Mark]:
    marks = _sentinel_marks(target, rank)
    for number, positions in spans.items():
        for position in positions.tolist():
            marks[position] = Mark("span", number)
    return marks
