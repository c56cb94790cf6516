"""Streams over toy sets, and what their batches hold."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from clozeline.pipeline.shards import ColumnSpec, Manifest
from clozeline.pipeline.shards.manifest import ObjectiveRecord
from clozeline.train.data.stream.mixture import SourceKey
from clozeline.train.data.stream.stream import Stream
from tests.shard_sets import IDS, objective


class ToyCorruption(NamedTuple):
    """A kernel in place of an objective, and the list columns and the architecture of its
    examples."""

    kernel: Callable[..., Any]
    columns: Sequence[ColumnSpec] = (IDS,)
    architecture: str = "decoder"
    identity: str = "toy"

    def __call__(self, *arguments):
        return self.kernel(*arguments)

    def manifest(self, samples):
        """What `Corruption.manifest` returns."""
        facts = ObjectiveRecord.model_validate(objective(self.architecture), strict=False)
        return Manifest.model_construct(
            **{**dict(samples), "objective": facts, "columns": tuple(self.columns)}
        )


def keys(*numbers):
    """Keys of different sets."""
    return tuple(SourceKey(str(number), 1, 1, str(number)) for number in numbers)


def open_stream(data, rank=0, world=1, **options):
    """A stream in the calling thread, of 4 lanes and 8 rows a step, unless `options` say
    otherwise."""
    settings = {
        "lanes": 4,
        "seed": 3,
        "global_batch": 8,
        "micro_batch": 2,
        "io_threads": 0,
        **options,
    }

    return Stream(data, rank=rank, world_size=world, **settings)


def run(stream, steps):
    for _ in range(steps):
        stream.next_step()


def rows_of(batches):
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


def contents(batches):
    return [ids for _, ids, _ in rows_of(batches)]
