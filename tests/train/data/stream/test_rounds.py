"""Blocks are loaded ahead, as far as asked.

Those that cannot be read come as filler, and nothing else moves.
"""

import errno
import os
import threading
import tracemalloc
from collections import Counter

import pytest

from clozeline.pipeline.shards import DamagedBlock, ShardSet
from clozeline.train.data.stream.phases import phase_of
from tests.shard_sets import damage, rows, toy_set, write_set
from tests.train.data.stream.streams import open_stream, rows_of, run


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr("clozeline.train.data.stream.rounds._PAUSE_S", 0.0)


FILLER = ([-1, -1, -1], [0], 0.0)


def expected(whole, block):
    return [FILLER if row[0][1] == block else row for row in whole]


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("make", ["equal", "ragged"])
@pytest.mark.parametrize("threads", [0, 2])
def test_a_skipped_block_is_filler_and_all_other_rows_stay(tmp_path, block, make, threads):
    """Block 1 is a whole one; block 4 is a tail, which is only a piece of a virtual block."""
    if make == "equal":
        shards = toy_set(tmp_path, [19, 18, 3])
    else:
        shards = write_set(
            tmp_path,
            [
                rows(range(1, 20), [n % 5 + 1 for n in range(19)]),
                rows(range(20, 41)),
            ],
        )

    with open_stream(shards) as stream:
        whole = [row for _ in range(15) for row in rows_of(stream.next_step())]
    damage(shards, block)
    with open_stream(shards, io_threads=threads, max_damaged_fraction=0.1) as stream:
        found = [row for _ in range(15) for row in rows_of(stream.next_step())]
        assert stream.stats()["skipped_blocks"] == 1

    assert found == expected(whole, block)


def test_too_many_skipped_blocks_end_the_stream(tmp_path):
    """A second request ends in the same way.

    The message says why one more block was not skipped.
    """
    shards = toy_set(tmp_path, [40])
    for block in (2, 5):
        damage(shards, block)
    with open_stream(shards, max_damaged_fraction=0.1, global_batch=40) as stream:
        for _ in range(2):
            with pytest.raises(DamagedBlock, match=r"2 of 10 blocks: max_damaged_fraction is 0\.1"):
                stream.next_step()
        assert stream.stats()["skipped_blocks"] == 1


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_no_block_is_skipped_for_an_error_of_the_process(tmp_path, monkeypatch, number):
    """Too many open files are no sign of a damaged block; a failed read of the disk is one."""
    shards = toy_set(tmp_path, [40])
    real = os.open

    def failing(path, *arguments):
        if "shard-" in str(path):
            raise OSError(number, os.strerror(number))
        return real(path, *arguments)

    monkeypatch.setattr(os, "open", failing)

    with open_stream(shards, max_damaged_fraction=1.0) as stream:
        if number == errno.EMFILE:
            with pytest.raises(OSError, match="Too many open files"):
                stream.next_step()
        else:
            assert {row[2] for row in rows_of(stream.next_step())} == {0.0}


def test_an_error_does_not_wait_for_reads_that_hang(tmp_path, monkeypatch):
    """Three of the first four blocks never come.

    The error of the fourth, which is damaged, comes at once.
    """
    never = threading.Event()
    real = ShardSet.read_block
    shards = toy_set(tmp_path, [400], block_rows=100)
    damage(shards, 2)

    def read(self, block, *arguments):
        assert block == 2 or never.wait(60)
        return real(self, block, *arguments)

    monkeypatch.setattr(ShardSet, "read_block", read)

    with open_stream(shards, io_threads=4) as stream:
        with pytest.raises(DamagedBlock) as caught:
            stream.next_step()
        assert caught.value.block == 2
        assert stream.stats()["in_flight"] >= 3
        assert not never.is_set()
        never.set()


def test_asking_again_reads_again(tmp_path):
    shards = toy_set(tmp_path, [32])
    path = shards.shard_path(0)
    whole = path.read_bytes()
    damage(shards, 6)

    with open_stream(shards, io_threads=2) as stream, open_stream(shards) as reference:
        with pytest.raises(DamagedBlock):
            run(stream, 8)
        path.write_bytes(whole)
        reference.set_position(stream.samples)
        assert (stream.next_step()[0].origin == reference.next_step()[0].origin).all()


def test_a_phase_that_is_over_holds_no_memory(tmp_path):
    long = toy_set(tmp_path / "long", [1300], row_length=2000, block_rows=100, name="long")
    short = toy_set(tmp_path / "short", [300], block_rows=20, name="short")
    lanes = 12
    a_round = lanes * 100 * 2000 * 2
    phases = [phase_of((long,), (), 24 * 60), phase_of((short,))]
    tracemalloc.start()

    with open_stream(phases, lanes=lanes, global_batch=24) as stream:
        for _ in range(30):
            stream.next_step()
        assert tracemalloc.get_traced_memory()[0] > a_round
        for _ in range(500):
            stream.next_step()
        assert tracemalloc.get_traced_memory()[0] < a_round

    tracemalloc.stop()


@pytest.fixture
def reads(monkeypatch):
    """How often each block of each set was read."""
    found = Counter()
    real = ShardSet.read_block

    def read_block(shards, block, *arguments):
        found[shards.path, block] += 1
        return real(shards, block, *arguments)

    monkeypatch.setattr(ShardSet, "read_block", read_block)
    return found


@pytest.mark.parametrize("later", [(1.0, 10.0, 13.0), (9.0, 17.0, 7.0)])
def test_a_block_is_read_once_however_lanes_lag(tmp_path, monkeypatch, later, reads):
    """After a change of weights a lane may be at an earlier row of a set, and draw nothing of it
    for some steps."""
    sets = [toy_set(tmp_path / name, [960], name=name, block_rows=2) for name in "abc"]
    monkeypatch.setattr("clozeline.train.data.stream.batches._ROWS_AT_ONCE", 1)
    phases = [
        phase_of(tuple(sets), (7.0, 5.0, 2.0), 8 * 77),
        phase_of(tuple(sets), later),
    ]
    with open_stream(phases, lanes=8, global_batch=8, micro_batch=8) as stream:
        run(stream, 150)

    assert set(reads.values()) == {1}


def test_no_more_is_held_than_fits(tmp_path, reads):
    """A block is read once for each part of its round."""
    shards = toy_set(tmp_path, [1003, 5, 492], block_rows=40)
    options = {"lanes": 12, "global_batch": 24}
    with open_stream(shards, memory_bytes=50_000, **options) as stream:
        (limit,) = (source.max_lane_rows for source in stream.sources)
        assert 10 <= limit < 14, limit
        run(stream, 60)  # positions 0 .. 119: the normal rounds of the epoch

    assert set(reads.values()) == {-(-40 // limit)}
