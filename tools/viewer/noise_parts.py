"""A row whose target is the original: input and original with the noise between them."""

from __future__ import annotations

import numpy as np

from pipeline.arrays import Int64
from pipeline.rows import Row
from tools.viewer.passages import Passages
from tools.viewer.pieces import PLAIN, Mark
from tools.viewer.sentinel_parts import without_end
from tools.viewer.traces import Trace, trace_noise
from tools.viewer.view import Cell, Passage, Sheet

__all__ = ["noise_parts"]


def noise_parts(show: Passages, row: Row) -> list[Passage | Sheet]:
    """Return the parts of a row whose columns record the noise; see `trace_noise`."""
    ids, target = (row.columns[name].astype(np.int64) for name in ("input_ids", "target_ids"))
    content = without_end(show.pieces, target)
    trace = trace_noise(row.columns, len(content))
    frame = len(ids) - len(trace.origin) - 1  # tokens of the frame before the content
    if not 0 <= frame <= 1:
        return [show.passage("input", ids), show.passage("target", target)]
    marks = [PLAIN] * frame + [_input_mark(trace, position) for position in trace.origin.tolist()] + [PLAIN]
    originals = [_input_mark(trace, position) for position in range(len(content))] + [PLAIN]
    for number, span in enumerate(trace.spans):
        for position in span.tolist():
            originals[position] = Mark("span", number, "removed")
    return [
        show.passage("input", ids, marks, _sentence_markers(trace, trace.origin, frame)),
        show.passage("original (target)", target, originals[: len(target)],
                     _sentence_markers(trace, np.arange(len(content)), 0)),
        *_sheets(show, trace, ids, content, frame),
    ]  # fmt: skip


def _input_mark(trace: Trace, position: int) -> Mark:
    """Return the mark of an input token that stood at a position of the original; below 0 it replaces a span."""
    if position < 0:
        span = len(trace.spans[-1 - position])
        return Mark("infilled", -1 - position, f"replaces {span} tokens")
    note = f"position {position} in the original"
    if trace.order:
        return Mark("sentence", int(trace.sentence[position]), note)
    return Mark("moved" if position < trace.rotation or position in trace.shuffled else "plain", 0, note)


def _sentence_markers(trace: Trace, origin: Int64, frame: int) -> dict[int, str]:
    """Return the original number of each reordered sentence, in front of its first remaining token."""
    markers: dict[int, str] = {}
    current = -1
    for position, token in enumerate(origin.tolist() if trace.order else ()):
        if token >= 0 and int(trace.sentence[token]) != current:
            current = int(trace.sentence[token])
            markers[position + frame] = f"[{current + 1}]"
    return markers


def _sheets(show: Passages, trace: Trace, ids: Int64, content: Int64, frame: int) -> list[Passage | Sheet]:
    parts: list[Passage | Sheet] = []
    if trace.order:
        rows = [
            (str(rank + 1), str(number + 1), show.cell(content[trace.sentence == number], Mark("sentence", number)))
            for rank, number in enumerate(trace.order)
        ]
        parts.append(Sheet("sentence order", ("in the input", "in the original", "sentence"), tuple(rows)))
    if trace.rotation:
        moved = show.cell(content[: trace.rotation], Mark("moved"))
        parts.append(Sheet("rotation", ("tokens moved to the end", "text"), ((str(trace.rotation), moved),)))
    if trace.spans:
        spans = tuple(_span_row(show, trace, ids, content, frame, number) for number in range(len(trace.spans)))
        parts.append(Sheet(f"spans ({len(spans)})", ("", "before", "removed", "after"), spans))
    return parts


def _span_row(show: Passages, trace: Trace, ids: Int64, content: Int64, frame: int, number: int) -> tuple[Cell, ...]:
    position, span = frame + int(np.argmax(trace.origin == -1 - number)), trace.spans[number]
    before, after = show.around(ids, position)
    removed: Cell = show.cell(content[span], Mark("span", number)) if len(span) else "(nothing: a length of 0)"
    return show.cell(ids[position : position + 1], Mark("infilled", number)), before, removed, after
