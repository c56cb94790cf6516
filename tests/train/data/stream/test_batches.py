"""Global batches built a few at a time: what is held, what is read, and what a batch costs."""

from __future__ import annotations

import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clozeline.pipeline.shards import DamagedBlock, ShardSet
from clozeline.train.data.stream.batches import Batch
from clozeline.train.data.stream.phases import phase_of
from tests.shard_sets import damage, rows, toy_set, write_set
from tests.train.data.stream.streams import open_stream


def test_no_python_for_each_row_or_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Function calls of a step do not grow with rows or lanes."""
    monkeypatch.setattr("clozeline.train.data.stream.batches._ROWS_AT_ONCE", 1)  # a step at a time

    def calls(data: Any, lanes: int, batch: int) -> int:
        with open_stream(data, lanes=lanes, global_batch=batch, micro_batch=batch) as stream:
            stream.next_step()
            counts = []

            def count_calls(frame: Any, event: str, argument: Any) -> None:
                counts[-1] += event in ("call", "c_call")

            for _ in range(3):  # what is collected as garbage meanwhile may call too
                counts.append(0)
                sys.setprofile(count_calls)
                try:
                    stream.next_step()
                finally:
                    sys.setprofile(None)
            return min(counts)

    equal = toy_set(tmp_path / "equal", [64 * 40], block_rows=40)
    mixed = write_set(tmp_path / "mixed", [rows(range(1, 2561), [n % 7 + 1 for n in range(2560)])], block_rows=40)
    other = toy_set(tmp_path / "other", [64 * 40], block_rows=40, name="other")
    for data in (equal, mixed, [phase_of((equal, other))]):
        assert calls(data, 8, 8) == calls(data, 64, 64) == calls(data, 8, 64)


def test_an_error_waits_for_the_batch_that_needs_the_block(tmp_path: Path) -> None:
    """Batches before the bad block are delivered, whatever is loaded and built ahead of them."""
    shards = toy_set(tmp_path, [400], block_rows=10)
    with open_stream(shards) as reference:
        reference.set_position(4 * 10 * 2)
        block = int(reference.next_step()[0].origin[0, 1])
    damage(shards, block)
    with open_stream(shards, io_threads=2, prefetch_blocks=3) as stream:
        for _ in range(10):
            stream.next_step()
        with pytest.raises(DamagedBlock) as caught:
            stream.next_step()
        assert caught.value.block == block
        assert stream.samples == 80


@pytest.mark.parametrize("threads", [0, 2])
def test_a_phase_that_is_over_holds_no_memory(tmp_path: Path, threads: int) -> None:
    long = toy_set(tmp_path / "long", [1300], row_length=2000, block_rows=100, name="long")
    short = toy_set(tmp_path / "short", [300], block_rows=20, name="short")
    lanes = 12
    a_round = lanes * 100 * 2000 * 2
    phases = [phase_of((long,), (), 24 * 60), phase_of((short,))]
    tracemalloc.start()
    with open_stream(phases, lanes=lanes, global_batch=24, io_threads=threads) as stream:
        for _ in range(30):
            stream.next_step()
        assert tracemalloc.get_traced_memory()[0] > a_round
        for _ in range(500):
            stream.next_step()
        assert tracemalloc.get_traced_memory()[0] < a_round
    tracemalloc.stop()


@pytest.mark.parametrize("later", [(1.0, 10.0, 13.0), (9.0, 17.0, 7.0), (8.0, 3.0, 13.0)])
def test_a_block_is_read_once_however_lanes_lag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: tuple[float, ...]
) -> None:
    """After a change of weights a lane may be at an earlier row of a set, and draw nothing of it for some steps."""
    sets = [toy_set(tmp_path / name, [960], name=name, block_rows=2) for name in "abc"]
    read: Counter[tuple[Path, int]] = Counter()
    real = ShardSet.read_block

    def read_block(shards: ShardSet, block: int, *arguments: Any) -> Any:
        read[shards.path, block] += 1
        return real(shards, block, *arguments)

    monkeypatch.setattr(ShardSet, "read_block", read_block)
    monkeypatch.setattr("clozeline.train.data.stream.batches._ROWS_AT_ONCE", 1)
    phases = [phase_of(tuple(sets), (7.0, 5.0, 2.0), 8 * 77), phase_of(tuple(sets), later)]
    with open_stream(phases, lanes=8, global_batch=8, micro_batch=8) as stream:
        for _ in range(150):
            stream.next_step()
    assert set(read.values()) == {1}


def test_a_batch_names_its_tensors_and_counts_its_rows_without_filler() -> None:
    tensors = {"input_ids": torch.zeros(3, 7, dtype=torch.int64), "label_ids": torch.zeros(4, dtype=torch.int32)}
    batch = Batch(tensors, torch.tensor([1.0, 1.0, 0.0]), np.zeros((3, 3), np.int64), 3, 0.5)
    assert repr(batch) == "Batch(2 rows: input_ids [3, 7], label_ids [4])"
    html = batch._repr_html_()
    assert "batch of 2 rows, epoch 0.50" in html
    assert "<td>input_ids</td><td>int64</td><td>[3, 7]</td>" in html
