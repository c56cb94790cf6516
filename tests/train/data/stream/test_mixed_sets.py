"""Streams over several sets: every row of every set exactly once in its own epoch, at any world size and position."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import ShardSet
from clozeline.train.data.stream.mixture import Phase
from clozeline.train.data.stream.phases import Input, key_phases, phase_of
from tests.matrices import mark_slow_but
from tests.shard_sets import TOKENIZER, objective, rows, toy_set, write_set
from tests.train.data.stream.streams import open_stream as open_toy
from tests.train.data.stream.streams import rows_of

LANES = 8
open_stream = partial(open_toy, lanes=LANES, global_batch=16)


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> list[ShardSet]:
    """Three sets of other sizes, one with rows of many lengths and one with another length."""
    folder = tmp_path_factory.mktemp("sets")
    ragged = write_set(folder / "b", [rows(range(1000, 1090), [n % 7 + 2 for n in range(90)])], name="b")
    return [
        toy_set(folder / "a", [70, 0, 33, 7], name="a"),
        ragged,
        toy_set(folder / "c", [37], row_length=5, name="c", block_rows=6),
    ]


def phases_of(sets: list[ShardSet]) -> list[Phase[Input]]:
    return [
        phase_of((sets[0], sets[1]), (3.0, 1.0), 96),
        phase_of((sets[2],), (), 96 + 64, 32),
        phase_of((sets[0],), (), 96 + 64 + 48),
        phase_of((sets[2], sets[1], sets[0]), (1.0, 1.0, 2.0)),
    ]


def test_rows_are_those_that_were_stored_and_explain_knows_them(sets: list[ShardSet]) -> None:
    with open_stream(phases_of(sets)) as stream:
        sources = [source.shards for source in stream.sources]
        assert [shards.manifest.name for shards in sources] == ["a", "b", "c"]
        for _ in range(40):
            told = stream.explain(stream.samples)
            found = rows_of(stream.next_step())
            assert [origin for origin, _, _ in found] == told.tolist()
            for (source, block, row), ids, _ in found:
                if source >= 0:
                    stored = sources[source].read_block(block).columns["input_ids"][row]
                    assert ids == stored.tolist()


def test_every_row_once_in_each_epoch_of_its_set_across_phases(sets: list[ShardSet]) -> None:
    """Counting by set: what came of it, in order, is whole epochs and the beginning of the next."""
    with open_stream(phases_of(sets), global_batch=16) as stream:
        seen: list[list[tuple[int, int, int]]] = [[], [], []]
        for _ in range(120):
            for batch in stream.next_step():
                for source, block, row in batch.origin.tolist():
                    if source >= 0:
                        seen[source].append((source, block, row))
        for source, found in zip(stream.sources, seen, strict=True):
            times = Counter(found)
            assert len(times) == len(source.shards)
            assert max(times.values()) - min(times.values()) <= 1


@pytest.mark.parametrize("threads", mark_slow_but([2], [0, 2]))
def test_world_size_threads_and_resume_do_not_matter(sets: list[ShardSet], threads: int) -> None:
    data = phases_of(sets)
    with open_stream(data) as stream:
        expected, states = [], []
        for _ in range(13):
            states.append(stream.state_dict())
            expected.append(rows_of(stream.next_step()))
    for world in (2,) if threads else (1, 4):
        streams = [open_stream(data, rank, world, io_threads=threads) for rank in range(world)]
        for number in range(11):  # in phases, and at their ends
            for stream in streams:
                stream.load_state_dict(states[number])
            found = [[row for stream in streams for row in rows_of(stream.next_step())] for _ in range(3)]
            assert found == expected[number : number + 3]
        for stream in streams:
            stream.close()


def test_two_phases_of_two_lengths(tmp_path: Path) -> None:
    """Short rows first, long ones later: the length changes at the very sample, and no row is lost."""
    short, long = (toy_set(tmp_path / name, [60], row_length=size, name=name) for name, size in (("s", 4), ("l", 9)))
    data = [phase_of((short,), (), 96, 32), phase_of((long,), (), 128, 16), phase_of((short,), (), None, 32)]
    with open_stream(data, micro_batch=16) as stream:
        found = []
        while stream.samples < 224:
            batches = stream.next_step()
            found.append((stream.samples, sum(len(batch.origin) for batch in batches), batches))
        assert [(samples, size) for samples, size, _ in found] == [
            (32, 32), (64, 32), (96, 32), (112, 16), (128, 16), (160, 32), (192, 32), (224, 32)
        ]  # fmt: skip
        for samples, _, batches in found:
            for batch in batches:
                real = batch.row_weight > 0
                assert set(batch.tensors["lengths"][real].tolist()) == {9 if 96 < samples <= 128 else 4}
    alone = open_stream(short, global_batch=32)
    wanted = [[origin for origin, _, _ in rows_of(alone.next_step())] for _ in range(6)]
    parts = [[origin for origin, _, _ in rows_of(batches)] for samples, _, batches in found if not 96 < samples <= 128]
    assert parts == wanted, "a set that comes back continues where it stopped"


def test_state_holds_weights_and_phases(sets: list[ShardSet]) -> None:
    digests = {
        json.dumps(open_stream(data).state_dict()["data"])
        for data in (
            sets[0],
            [phase_of((sets[0], sets[1]))],
            [phase_of((sets[0], sets[1]), (2.0, 1.0))],
            [phase_of((sets[1], sets[0]))],
            [phase_of((sets[0],), global_batch=96)],
            phases_of(sets),
        )
    }
    assert len(digests) == 6
    assert open_stream([phase_of((sets[0],))]).state_dict() == open_stream(sets[0]).state_dict()


def test_weights_that_draw_alike_are_the_same_data(sets: list[ShardSet]) -> None:
    pair = (sets[0], sets[1])
    (alike,) = {tuple(key_phases([phase_of(pair, weights)])) for weights in ((), (1.0, 1.0), (2.0, 2.0))}
    assert alike != tuple(key_phases([phase_of(pair, (1.0, 2.0))]))


def test_sets_that_do_not_go_together(sets: list[ShardSet], tmp_path: Path) -> None:
    other = toy_set(tmp_path / "e", [9], name="e", objective=objective("encoder"))
    with pytest.raises(ConfigurationError, match=r"batches differ in architecture .*: decoder and encoder"):
        open_stream([phase_of((sets[0], other))])
    strange = toy_set(tmp_path / "t", [9], name="t", tokenizer={**TOKENIZER, "fingerprint": "0" * 64})
    with pytest.raises(ConfigurationError, match="two tokenizers"):
        open_stream([phase_of((sets[0], strange))])


@pytest.mark.parametrize("phases", [[], [phase_of(())]])
def test_phases_have_sets(phases: list[Phase[Input]]) -> None:
    with pytest.raises(ConfigurationError, match="expected a shard set or more in every phase"):
        open_stream(phases)


def test_a_batch_may_not_cross_the_end_of_a_phase(sets: list[ShardSet]) -> None:
    data = [phase_of((sets[0],), (), 48), phase_of((sets[1],))]
    with open_stream(data) as stream:
        stream.next_step()
        with pytest.raises(ConfigurationError, match="crosses the end of a phase at 48"):
            stream.next_step(64)
        assert [source for batch in stream.next_step(32) for source in np.unique(batch.origin[:, 0])] == [0] * 16
