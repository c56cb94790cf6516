"""Streams over toy sets, and what their batches hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from clozeline.train.data.stream.batches import Batch
from clozeline.train.data.stream.stream import Stream


def open_stream(data: Any, rank: int = 0, world: int = 1, **options: Any) -> Stream:
    """A stream in the calling thread, of 4 lanes and 8 rows a step, unless `options` say otherwise."""
    settings: Any = {"lanes": 4, "seed": 3, "global_batch": 8, "micro_batch": 2, "io_threads": 0, **options}
    return Stream(data, rank=rank, world_size=world, **settings)


def run(stream: Stream, steps: int) -> None:
    """Take some steps."""
    for _ in range(steps):
        stream.next_step()


def rows_of(batches: Iterable[Batch]) -> list[tuple[list[int], list[int], float]]:
    """(origin, token ids, weight) of every row in order; the ids of a filler row are one pad."""
    return [
        (origin, ids[:length], weight)
        for batch in batches
        for origin, ids, length, weight in zip(
            batch.origin.tolist(),
            batch.tensors["input_ids"].tolist(),
            batch.tensors["lengths"].tolist(),
            batch.row_weight.tolist(),
            strict=True,
        )
    ]


def contents(batches: Iterable[Batch]) -> list[list[int]]:
    """Token ids of every row in order."""
    return [ids for _, ids, _ in rows_of(batches)]
