"""Show a row whose target is the original: input and original, with the recorded noise between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.pipeline.corrupt.preview.pieces import PLAIN, Mark, Pieces
from clozeline.pipeline.corrupt.preview.view import Cell, Parts, Passage, Sheet
from clozeline.pipeline.rows import Row

_NOISE: Final = ("sentence_order", "token_order", "rotation", "kept_positions", "noise_positions", "span_starts")


@dataclass
class Trace:
    """Positions in the original of the input's content tokens."""

    origin: Int64
    """position in the original of each input token; -1 - i for the token that replaces span i"""
    spans: list[Int64] = field(default_factory=list)
    """positions in the original of each removed span, in the order of the input"""
    order: list[int] = field(default_factory=list)
    """original numbers of the sentences in the order of the input; empty where they were not reordered"""
    sentence: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    """number of the original sentence of each original token; empty where unknown"""
    rotation: int = 0
    """original tokens that were moved from the front to the end"""
    shuffled: frozenset[int] = frozenset()
    """positions in the original of the tokens that a shuffle moved"""


def has_noise(columns: Mapping[str, NDArray[Any]]) -> bool:
    """Return whether the columns record noise by which an input follows from its target."""
    return any(name.endswith(_NOISE) for name in columns)


def trace_noise(columns: Mapping[str, NDArray[Any]], length: int) -> Trace:
    """Replay the noise columns of a row, in their order, over an original of `length` tokens.

    Known noise: `sentence_order` with `sentence_starts`, `token_order`, `rotation`, `kept_positions`, `span_starts`
    with `span_lengths`. A composition puts the name of the step in front: `text_infilling_span_starts`.

    original a b c d, rotation 1, span at 1 of length 2: origin [1, -1, 0], spans [[2, 3]]
    """
    trace = Trace(np.arange(length, dtype=np.int64))
    for name, values in columns.items():
        noise = values.astype(np.int64)
        if name.endswith("sentence_order"):
            starts = columns[name.removesuffix("order") + "starts"].astype(np.int64)
            if trace.order == [] and len(trace.origin):
                trace.sentence = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(trace.origin))))
                trace.order = noise.tolist()
            pieces = np.split(trace.origin, starts[1:])
            trace.origin = np.concatenate([pieces[number] for number in noise.tolist()])
        elif name.endswith("rotation"):
            trace.rotation = int(noise[0])
            trace.origin = np.roll(trace.origin, -trace.rotation)
        elif name.endswith("token_order"):
            trace.shuffled = frozenset(trace.origin[noise][noise != np.arange(len(noise))].tolist())
            trace.origin = trace.origin[noise]
        elif name.endswith("kept_positions"):
            trace.origin = trace.origin[noise]
        elif name.endswith("span_starts") and "target_ids" in columns:
            # each span becomes one token
            ends = noise + columns[name.removesuffix("starts") + "lengths"]
            pieces = np.split(trace.origin, np.stack((noise, ends), axis=1).reshape(-1))
            for number in range(1, len(pieces), 2):
                trace.spans.append(pieces[number])
                pieces[number] = np.array([-len(trace.spans)])
            trace.origin = np.concatenate(pieces)
    return trace


def noise_parts(show: Pieces, row: Row) -> Parts:
    """Return the parts of a row whose columns record the noise; see `trace_noise`."""
    ids, target = (row[name].astype(np.int64) for name in ("input_ids", "target_ids"))
    content = show.without_end(target)
    trace = trace_noise(row.columns, len(content))
    frame = len(ids) - len(trace.origin) - 1  # special tokens before the content
    if not 0 <= frame <= 1:
        return [show.passage("input", ids), show.passage("target", target)]
    # one mark for each token of the input [input length] and of the target [content length + 1]
    marks = [PLAIN] * frame + [_mark(trace, position) for position in trace.origin.tolist()] + [PLAIN]
    originals = [_mark(trace, position) for position in range(len(content))] + [PLAIN]
    for number, span in enumerate(trace.spans):
        for position in span.tolist():
            originals[position] = Mark("span", number, "removed")
    signs = _sentence_markers(trace, np.arange(len(content)))
    parts: list[Passage | Sheet] = [
        show.passage("input", ids, marks, _sentence_markers(trace, trace.origin, frame)),
        show.passage("original (target)", target, originals[: len(target)], signs),
    ]
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
        spans = []
        for number, span in enumerate(trace.spans):
            position = frame + int(np.argmax(trace.origin == -1 - number))
            before, after = show.around(ids, position)
            removed: Cell = show.cell(content[span], Mark("span", number)) if len(span) else "(nothing: a length of 0)"
            spans.append((show.cell(ids[position : position + 1], marks[position]), before, removed, after))
        parts.append(Sheet(f"spans ({len(spans)})", ("", "before", "removed", "after"), tuple(spans)))
    return parts


def _mark(trace: Trace, position: int) -> Mark:
    """Return the mark of an input token that comes from a position of the original; below 0 it replaces a span."""
    if position < 0:
        return Mark("infilled", -1 - position, f"replaces {len(trace.spans[-1 - position])} tokens")
    note = f"position {position} in the original"
    if trace.order:
        return Mark("sentence", int(trace.sentence[position]), note)
    return Mark("moved" if position < trace.rotation or position in trace.shuffled else "plain", 0, note)


def _sentence_markers(trace: Trace, origin: Int64, frame: int = 0) -> dict[int, str]:
    """Return the original number of each reordered sentence, in front of its first remaining token."""
    markers: dict[int, str] = {}
    current = -1
    for position, token in enumerate(origin.tolist() if trace.order else ()):
        if token >= 0 and int(trace.sentence[token]) != current:
            current = int(trace.sentence[token])
            markers[position + frame] = f"[{current + 1}]"
    return markers
