"""Three epochs in pieces of any world size, threads and container; two processes; order of length."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.process_group import World
from tests.distributed import RankPool
from tests.shard_sets import rows, write_set
from tests.train.data.stream.streams import contents

LANES, GLOBAL = 8, 16
STEPS = 40


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], ShardSet]:
    """One set in every container and codec; some blocks are equally long, some are not."""
    lengths = [5] * 40 + [(7 * n) % 11 + 1 for n in range(60)]
    content = [rows(range(1, 64), lengths[:63]), rows(range(64, 101), lengths[63:])]
    folder = tmp_path_factory.mktemp("elastic")
    return {
        (container, codec): write_set(folder / container / codec, content, container=container, codec=codec)
        for container, codec in itertools.product(("arrow", "tar"), ("none", "zstd"))
    }


def opened(shards: ShardSet, rank: int, world: int, micro: int, threads: int, ahead: int) -> Stream:
    return Stream(
        shards,
        rank=rank,
        world_size=world,
        lanes=LANES,
        seed=7,
        global_batch=GLOBAL,
        micro_batch=micro,
        io_threads=threads,
        prefetch_blocks=ahead,
    )


@pytest.fixture(scope="module")
def expected(sets: dict[tuple[str, str], ShardSet]) -> list[list[list[int]]]:
    with opened(sets["arrow", "none"], 0, 1, GLOBAL, 0, 0) as stream:
        return [contents(stream.next_step()) for _ in range(STEPS)]


worlds = st.sampled_from([1, 2, 4, 8])
kinds = st.tuples(st.sampled_from(["arrow", "tar"]), st.sampled_from(["none", "zstd"]))
quiet: Any = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}
epochs = st.lists(st.tuples(kinds, worlds, st.sampled_from([0, 1, 3]), st.integers(0, 2), st.integers(1, 25)),
                  max_size=4)  # fmt: skip


def check_epochs(sets: Any, plan: list[tuple[tuple[str, str], int, int, int, int]]) -> None:
    """Three epochs in pieces, each at a world size, number of threads and container of its own."""
    shards = sets["arrow", "none"]
    uids = [shards.read_block(block).fixed["uid"] for block in range(len(shards.index))]
    seen: Counter[int] = Counter()
    state = opened(shards, 0, 1, 1, 0, 0).state_dict()
    left = 3 * -(-len(shards) // LANES)
    for kind, world, threads, ahead, count in [*plan, (("tar", "zstd"), 2, 1, 1, left)]:
        streams = [opened(sets[kind], rank, world, 1, threads, ahead) for rank in range(world)]
        for stream in streams:
            stream.load_state_dict(state, allow_changed=["data"])
            for _ in range(min(count, left)):
                for batch in stream.next_step(LANES):
                    seen.update(uids[block][row] for _, block, row in batch.origin.tolist() if block >= 0)
        left -= min(count, left)
        (state,) = {json.dumps(stream.state_dict()) for stream in streams}
        state = json.loads(state)
        for stream in streams:
            stream.close()
    assert state["samples"] == 3 * 13 * LANES
    assert seen == Counter(dict.fromkeys(range(1, 101), 3))


@settings(max_examples=15, **quiet)
@given(epochs)
def test_three_epochs_hold_every_uid_three_times(sets: Any, plan: Any) -> None:
    check_epochs(sets, plan)


def rows_of_rank(world: World, folder: Path) -> tuple[list[list[list[int]]], str]:
    """Return the rows that a rank of a real process group reads from the middle of an epoch on, and its state."""
    with opened(open_shards(folder), world.rank, world.size, 2, 1, 1) as stream:
        stream.set_position(5 * GLOBAL)
        found = [contents(stream.next_step()) for _ in range(12)]
        return found, json.dumps(stream.state_dict())


def test_two_processes_read_the_same_global_batches(sets: Any, expected: Any, two_ranks: RankPool) -> None:
    (first, state), (second, other) = two_ranks.run(rows_of_rank, sets["tar", "none"].path.parent)
    assert [left + right for left, right in zip(first, second, strict=True)] == expected[5:17]
    assert state == other


def test_batches_in_order_of_length_hold_the_same_rows(sets: Any, expected: Any) -> None:
    """Length buckets move rows between a rank's micro-batches of a step, never between steps."""
    options: Any = {"lanes": LANES, "seed": 7, "global_batch": GLOBAL, "micro_batch": 4, "io_threads": 0}
    with Stream(sets["tar", "zstd"], rank=0, world_size=1, by_length=True, **options) as stream:
        for step in expected:
            batches = stream.next_step()
            lengths = [row for batch in batches for row in batch.tensors["lengths"].tolist()]
            assert lengths == sorted(lengths)
            assert sorted(contents(batches)) == sorted(step)
