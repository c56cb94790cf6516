"""Blocks are loaded ahead, as far as asked; those that cannot be read come as filler, and nothing else moves."""

from __future__ import annotations

import errno
import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeline.pipeline.shards import DamagedBlock, ManifestError, ShardSet, StoreOptions, open_shards
from clozeline.train.data.stream.order import BlockOrder
from clozeline.train.data.stream.phases import Input
from tests.shard_server import ShardServer
from tests.shard_sets import damage, rows, toy_set, write_set
from tests.train.data.stream.streams import ToyCorruption, open_stream, rows_of, run


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clozeline.train.data.stream.rounds._PAUSE_S", 0.0)


FILLER = ([-1, -1, -1], [0], 0.0)


def expected(whole: list[Any], block: int) -> list[Any]:
    return [FILLER if row[0][1] == block else row for row in whole]


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("make", ["equal", "ragged"])
@pytest.mark.parametrize("threads", [0, 2])
def test_a_skipped_block_is_filler_and_all_other_rows_stay(tmp_path: Path, block: int, make: str, threads: int) -> None:
    """Block 1 is a whole one; block 4 is a tail, which is only a piece of a virtual block."""
    if make == "equal":
        shards = toy_set(tmp_path, [19, 18, 3])
    else:
        shards = write_set(tmp_path, [rows(range(1, 20), [n % 5 + 1 for n in range(19)]), rows(range(20, 41))])
    with open_stream(shards) as stream:
        whole = [row for _ in range(15) for row in rows_of(stream.next_step())]
    damage(shards, block)
    with open_stream(shards, io_threads=threads, max_damaged_fraction=0.1) as stream:
        found = [row for _ in range(15) for row in rows_of(stream.next_step())]
        assert stream.stats()["skipped_blocks"] == 1
    assert found == expected(whole, block)


def test_an_object_that_has_become_shorter_is_skipped_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clozeline.pipeline.shards.store._FIRST_PAUSE_S", 0.0)
    shards, server = toy_set(tmp_path, [19, 18]), ShardServer(tmp_path)
    with open_stream(shards) as stream:
        whole = [row for _ in range(15) for row in rows_of(stream.next_step())]
    with server.site.running():
        remote = open_shards(server.url, options=StoreOptions(retries=1))
        last = shards.shard_path(1)
        last.write_bytes(last.read_bytes()[: int(shards.index.offset[-1]) + 50])
        with open_stream(remote, max_damaged_fraction=0.1, io_threads=2) as stream:
            assert [row for _ in range(15) for row in rows_of(stream.next_step())] == expected(whole, 9)
            assert stream.stats()["skipped_blocks"] == 1
            assert stream.stats()["retries"] > 0


def test_too_many_skipped_blocks_end_the_stream(tmp_path: Path) -> None:
    """A second request ends in the same way; the message says why one more block was not skipped."""
    shards = toy_set(tmp_path, [40])
    for block in (2, 5):
        damage(shards, block)
    with open_stream(shards, max_damaged_fraction=0.1, global_batch=40) as stream:
        for _ in range(2):
            with pytest.raises(DamagedBlock, match=r"2 of 10 blocks: max_damaged_fraction is 0\.1"):
                stream.next_step()
        assert stream.stats()["skipped_blocks"] == 1


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_no_block_is_skipped_for_an_error_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Too many open files are no sign of a damaged block; a failed read of the disk is one."""
    shards, real = toy_set(tmp_path, [40]), os.open

    def failing(path: Any, *arguments: Any) -> int:
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


def test_quarantined_blocks_are_skipped_without_reading(tmp_path: Path) -> None:
    """Neither digest nor order change; a shard of which every block is in quarantine may be missing."""
    shards = toy_set(tmp_path, [16, 12])
    with open_stream(shards) as stream:
        whole = [row for _ in range(4) for row in rows_of(stream.next_step())]
    entries = [{"shard": shards.manifest.shards[1].path, "block": n, "reason": "test"} for n in range(3)]
    (tmp_path / "quarantine.json").write_text(json.dumps(entries), encoding="utf-8")
    shards.shard_path(1).unlink()
    masked = open_shards(tmp_path, verify="shard")
    assert (masked.digest, masked.quarantined) == (shards.digest, {4, 5, 6})
    assert len(masked.quarantine.sha256) == 64
    with open_stream(masked) as stream:
        assert stream.state_dict() == open_stream(shards).state_dict()
        found = [row for _ in range(4) for row in rows_of(stream.next_step())]
    assert found == [FILLER if row[0][1] >= 4 else row for row in whole]
    (tmp_path / "quarantine.json").write_text(json.dumps(entries[:2]), encoding="utf-8")
    with pytest.raises(ManifestError, match="no such file"):
        open_shards(tmp_path)
    (tmp_path / "quarantine.json").write_text('[{"shard": "x", "block": 0, "reason": ""}]', encoding="utf-8")
    with pytest.raises(ManifestError, match="not a list of blocks in quarantine"):
        open_shards(tmp_path)


def test_skipped_samples_are_not_corrupted(tmp_path: Path) -> None:
    """With online corruption the rows of a skipped block never reach the kernel."""
    shards = toy_set(tmp_path, [19, 18], kind="samples", objective=None)
    damage(shards, 1)
    seen: list[int] = []

    def kernel(samples: Any, variants: Any) -> Any:
        seen.extend(samples.fixed["uid"].tolist())
        return samples, np.zeros(len(samples), np.uint8)

    data: Any = Input(shards, ToyCorruption(kernel))  # type: ignore[arg-type]
    with open_stream(data, global_batch=40, max_damaged_fraction=0.2) as stream:
        stream.next_step()
        assert stream.stats()["skipped_rows"] == 0
    assert sorted(set(seen)) == [uid for uid in range(1, 38) if not 5 <= uid <= 8]


def test_small_sets_on_many_lanes_fit(tmp_path: Path) -> None:
    """Only rows that exist count: a set of 5 rows fits on 16,384 lanes."""
    with open_stream(toy_set(tmp_path, [5], block_rows=1920)) as stream:
        small = replace(stream.sources[0], lanes=(0, 16384), memory_bytes=1 << 31)
    small, large = (replace(small, order=BlockOrder("x", rows, 1920, 1, 16384)) for rows in (5, 16384 * 1920))
    assert small.max_lane_rows is None
    assert 1000 < (large.max_lane_rows or 0) < 1200


def test_a_shard_truncated_while_streaming_is_an_exception(tmp_path: Path) -> None:
    shards = toy_set(tmp_path, [400], block_rows=20)
    with open_stream(shards, io_threads=2, prefetch_blocks=0) as stream:
        stream.next_step()
        os.truncate(shards.shard_path(0), 1000)
        with pytest.raises(DamagedBlock, match="truncated"):
            run(stream, 50)


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
            assert through.wait(120.0)
            return gate._real(shards, *arguments)

        monkeypatch.setattr(ShardSet, "read_block", read)

    def wait_for(self, reads: int) -> None:
        """Wait until at least `reads` reads are in flight."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._waiting) >= reads, 120.0), len(self._waiting)

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
    with open_stream(
        toy_set(tmp_path, [800], block_rows=10), micro_batch=8, io_threads=threads, prefetch_blocks=ahead
    ) as stream:
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
        rounds = stream.stats()["blocks"] / 4
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
    with open_stream(shards, io_threads=2) as stream, open_stream(shards) as reference:
        with pytest.raises(DamagedBlock):
            run(stream, 8)
        path.write_bytes(whole)
        reference.set_position(stream.samples)
        assert (stream.next_step()[0].origin == reference.next_step()[0].origin).all()
