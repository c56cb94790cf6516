"""Tokens of an example traced back to the original, through the noise that its columns record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import Int64

__all__ = ["Trace", "has_noise", "trace_noise"]

_NOISE: Final = ("sentence_order", "token_order", "rotation", "kept_positions", "noise_positions", "span_starts")


@dataclass
class Trace:
    """Positions in the original of the input's content tokens.

    Args:
        origin: position in the original of each input token; -1 - i for the token that replaces span i.
        spans: positions in the original of each removed span, in the order of the input.
        order: original numbers of the sentences in the order of the input; empty where they were not reordered.
        sentence: number of the original sentence of each original token; empty where unknown.
        rotation: original tokens that were moved from the front to the end.
        shuffled: positions in the original of the tokens that a shuffle moved.
    """

    origin: Int64
    spans: list[Int64] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    sentence: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    rotation: int = 0
    shuffled: frozenset[int] = frozenset()


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
            _reorder(trace, noise, starts)
        elif name.endswith("rotation"):
            trace.rotation = int(noise[0])
            trace.origin = np.roll(trace.origin, -trace.rotation)
        elif name.endswith("token_order"):
            trace.shuffled = frozenset(trace.origin[noise][noise != np.arange(len(noise))].tolist())
            trace.origin = trace.origin[noise]
        elif name.endswith("kept_positions"):
            trace.origin = trace.origin[noise]
        elif name.endswith("span_starts") and "target_ids" in columns:
            _cut(trace, noise, columns[name.removesuffix("starts") + "lengths"].astype(np.int64))
    return trace


def _reorder(trace: Trace, order: Int64, starts: Int64) -> None:
    pieces = np.split(trace.origin, starts[1:])
    if trace.order == [] and len(trace.origin):
        trace.sentence = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(trace.origin))))
        trace.order = order.tolist()
    trace.origin = np.concatenate([pieces[number] for number in order.tolist()])


def _cut(trace: Trace, starts: Int64, lengths: Int64) -> None:
    kept: list[Int64] = []
    end = 0
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        kept += [trace.origin[end:start], np.array([-1 - len(trace.spans)])]
        trace.spans.append(trace.origin[start : start + length])
        end = start + length
    trace.origin = np.concatenate([*kept, trace.origin[end:]])
