"""Feeds of small sets, and what a real stream delivers of them."""

import numpy as np

from clozeline.tools.runs.data.feed import Feed
from clozeline.train.data.stream.phases import phase_of
from clozeline.train.data.stream.stream import Stream
from tests.shard_sets import toy_set


def delivered(data, seed, lanes, global_batch, steps):
    """Position, and origin of every row, of each batch, by a real stream."""
    found = []
    with Stream(data, rank=0, world_size=1, lanes=lanes, seed=seed, global_batch=global_batch, micro_batch=2,
                io_threads=0) as stream:  # fmt: skip
        for _ in range(steps):
            samples = stream.samples
            found.append((samples, np.concatenate([batch.origin for batch in stream.next_step()])))
    return found


def mixed(tmp_path):
    """Two sets in shares of 2 to 1, then the first alone in larger batches, then both again."""
    first = toy_set(tmp_path / "first", [9, 2, 13])
    second = toy_set(tmp_path / "second", [5], name="other")
    return Feed(
        [
            phase_of((first, second), (2.0, 1.0), until_samples=24),
            phase_of((first,), until_samples=48, global_batch=8),
            phase_of((second, first), (1.0, 1.0)),
        ],
        seed=5,
        lanes=2,
        global_batch=4,
    )
