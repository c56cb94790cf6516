"""Rounds that do not fit into memory are loaded in parts; all rows keep their places."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

from clozeline.pipeline.shards import ShardSet
from clozeline.train.data.stream.phases import phase_of
from clozeline.train.data.stream.stream import Stream
from tests.matrices import mark_slow_but
from tests.shard_sets import rows, toy_set, write_set
from tests.train.data.stream.streams import open_stream as open_toy
from tests.train.data.stream.streams import rows_of

LANES = 12
open_stream = partial(open_toy, lanes=LANES, global_batch=24)


def delivered(stream: Stream, count: int) -> list[Any]:
    """The rows of some steps."""
    return [row for _ in range(count) for row in rows_of(stream.next_step())]


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ShardSet]:
    """Three rounds and a last one in an epoch, with tails; equally long rows, or not."""
    folder = tmp_path_factory.mktemp("sets")
    lengths = [n % 7 + 1 for n in range(1500)]
    return {
        "equal": toy_set(folder / "equal", [1003, 5, 492], block_rows=40),
        "ragged": write_set(
            folder / "ragged",
            [rows(range(1, 1004), lengths[:1003]), rows(range(1004, 1501), lengths[1003:])],
            block_rows=40,
            name="ragged",
        ),
    }


@pytest.mark.parametrize("data", mark_slow_but(["equal", "mixed"], ["equal", "ragged", "mixed"]))
@pytest.mark.parametrize(
    ("memory", "threads", "world"),
    mark_slow_but([(25_000, 2, 1), (1, 0, 1)], [(60_000, 0, 1), (25_000, 2, 1), (1, 0, 1), (9_000, 1, 3)]),
)
def test_parts_of_rounds_hold_the_same_rows(
    sets: dict[str, ShardSet], data: str, memory: int, threads: int, world: int
) -> None:
    given: Any = sets.get(data) or [phase_of(tuple(sets.values()), (2.0, 1.0))]
    with open_stream(given) as stream:
        expected = [delivered(stream, 1) for _ in range(70)]
        assert not any(source.max_lane_rows for source in stream.sources)
    streams = [open_stream(given, rank, world, io_threads=threads, memory_bytes=memory) for rank in range(world)]
    assert all(source.max_lane_rows for stream in streams for source in stream.sources)
    for step in (0, 1, 19, 58):
        for stream in streams:
            stream.set_position(step * 24)
        for number in range(step, min(step + 30, 70)):
            assert [row for stream in streams for row in delivered(stream, 1)] == expected[number]
    for stream in streams:
        stream.close()


def test_a_pass_in_parts(sets: dict[str, ShardSet]) -> None:
    with open_stream(sets["equal"]) as whole, open_stream(sets["equal"], memory_bytes=9_000) as parts:
        passes = [[b.origin.tolist() for step in stream.one_pass() for b in step] for stream in (whole, parts)]
    assert passes[0] == passes[1]


def test_no_more_is_held_than_fits(
    sets: dict[str, ShardSet], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A block is read once for each part of its round; one rank says the reason, once."""
    read, real = Counter[int](), ShardSet.read_block

    def read_block(shards: ShardSet, block: int, *arguments: Any) -> Any:
        read[block] += 1
        return real(shards, block, *arguments)

    monkeypatch.setattr(ShardSet, "read_block", read_block)
    with open_stream(sets["equal"], memory_bytes=50_000) as stream:
        (limit,) = (source.max_lane_rows for source in stream.sources)
        assert 10 <= limit < 14, limit
        delivered(stream, 60)  # positions 0 .. 119: the normal rounds of the epoch
    assert set(read.values()) == {-(-40 // limit)}
    message = capsys.readouterr().err
    assert "toy/train: 40 rows of 12 lanes on one rank do not fit into data.memory_bytes (50,000)" in message
    assert message.count("\n") == 1
    with open_stream(sets["equal"], 1, 2, memory_bytes=9_000), open_stream(sets["equal"]):
        assert not capsys.readouterr().err
