"""Reading ahead: no thread is idle while a store is slow, and loading stops while no batches are taken."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clozeline.pipeline.shards import DamagedBlock, ShardSet
from tests.shard_sets import damage, toy_set
from tests.train.data.stream.streams import open_stream as open_toy
from tests.train.data.stream.streams import run

LANES = 4
WAIT_S = 120.0
open_stream = partial(open_toy, micro_batch=8, io_threads=2)


class Gate:
    """A store in which every read waits until it is let through; the oldest read goes first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._changed = threading.Condition()
        self._waiting: list[threading.Event] = []
        self._real = ShardSet.read_block
        gate = self

        def read(shards: ShardSet, *arguments: Any) -> Any:
            through = threading.Event()
            with gate._changed:
                gate._waiting.append(through)
                gate._changed.notify_all()
            assert through.wait(WAIT_S)
            return gate._real(shards, *arguments)

        monkeypatch.setattr(ShardSet, "read_block", read)

    def wait_for(self, reads: int) -> None:
        """Wait until at least `reads` reads are in flight."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._waiting) >= reads, WAIT_S), len(self._waiting)

    def release(self) -> None:
        with self._changed:
            self._waiting.pop(0).set()

    @property
    def in_flight(self) -> int:
        with self._changed:
            return len(self._waiting)


@pytest.mark.parametrize(("threads", "ahead"), [(4, 1), (8, 2), (2, 1)])
def test_a_slow_store_always_has_as_many_reads_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, ahead: int
) -> None:
    """By Little's law blocks a second = reads in flight / latency: whenever one read ends, another one begins.

    At most `threads` reads can be in flight; `ahead` rounds of one block a lane are what keeps them busy.
    """
    gate = Gate(monkeypatch)
    with open_stream(toy_set(tmp_path, [800], block_rows=10), io_threads=threads, prefetch_blocks=ahead) as stream:
        taking, steps = True, 0

        def take() -> None:
            nonlocal steps
            while taking:
                stream.next_step()
                steps += 1

        taker = threading.Thread(target=take)
        taker.start()
        for _ in range(60):
            gate.wait_for(threads)
            assert gate.in_flight == threads, "more reads than threads"
            assert stream.stats()["in_flight"] >= threads
            gate.release()
        assert steps > 0, "batches came meanwhile"
        taking = False
        while taker.is_alive():
            if gate.in_flight:
                gate.release()
            taker.join(0.001)
        assert stream.stats()["wait_seconds"] > 0, "starvation is counted"
        monkeypatch.undo()
        while gate.in_flight:
            gate.release()


def test_nothing_is_read_further_ahead_than_asked(tmp_path: Path) -> None:
    """Back-pressure: while no batches are taken, loading stops after the rounds ahead."""
    shards = toy_set(tmp_path, [4000], block_rows=10, row_length=600)
    with open_stream(shards, global_batch=40, micro_batch=40, io_threads=2, prefetch_blocks=1) as stream:
        stream.next_step()
        ahead = stream._batches._ahead
        assert ahead is not None
        while ahead._ready.qsize() < 2:
            pass
        rounds = stream.stats()["blocks"] / LANES
        assert rounds <= 874 * 3 / 40 + 3, "three portions of at most 2**19 values, and the round ahead"


def test_an_error_does_not_wait_for_reads_that_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of the first four blocks never come; the error of the fourth, which is damaged, comes at once."""
    never, real = threading.Event(), ShardSet.read_block
    shards = toy_set(tmp_path, [400], block_rows=100)
    damage(shards, 2)

    def read(self: ShardSet, block: int, *arguments: Any) -> Any:
        assert block == 2 or never.wait(60)
        return real(self, block, *arguments)

    monkeypatch.setattr(ShardSet, "read_block", read)
    with open_stream(shards, io_threads=4) as stream:
        with pytest.raises(DamagedBlock) as caught:
            stream.next_step()
        assert caught.value.block == 2
        assert not never.is_set()
        never.set()


def test_asking_again_reads_again(tmp_path: Path) -> None:
    shards = toy_set(tmp_path, [32])
    path = shards.shard_path(0)
    whole = path.read_bytes()
    damage(shards, 6)
    with open_stream(shards) as stream, open_stream(shards, io_threads=0) as reference:
        with pytest.raises(DamagedBlock):
            run(stream, 8)
        path.write_bytes(whole)
        reference.set_position(stream.samples)
        assert (stream.next_step()[0].origin == reference.next_step()[0].origin).all()
