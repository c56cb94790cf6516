"""Sets in a store: the same rows, by fewer requests, of which many are in flight at once."""

import itertools
import threading
import time
from functools import partial

import pytest

from clozeline.pipeline.shards import DamagedBlock, StoreOptions, open_shards
from clozeline.pipeline.shards.column_set import JoinedShards
from tests.range_site import ShardServer
from tests.shard_sets import damage, toy_set
from tests.train.data.stream.streams import open_stream, rows_of

LANES = 8
SIZES = [32] * 6  # six shards of four blocks


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr("clozeline.train.data.stream.rounds._PAUSE_S", 0.0)
    monkeypatch.setattr("clozeline.pipeline.shards.store._FIRST_PAUSE_S", 0.0)


def one_pass(shards, **options):
    """The rows of one epoch, and the stream's counters."""
    with open_stream(shards, lanes=LANES, micro_batch=8, **options) as stream:
        batches = [batch for step in stream.one_pass() for batch in step]
        return rows_of(batches), stream.stats()


def block_ranges(shards):
    """(first byte, end) of each block, by the shard's file."""
    index = shards.index
    return [
        (shards.manifest.shards[shard].path, int(offset), int(offset) + int(length))
        for shard, offset, length in zip(index.shard, index.offset, index.length, strict=True)
    ]


def round_blocks(shards):
    """The blocks of each of the three rounds of an epoch, from the origins of its rows alone."""
    with open_stream(shards, lanes=LANES) as stream:
        return [set(stream.reading.origins(lane_row, 8)[:, 1].tolist()) for lane_row in (0, 8, 16)]


def later_neighbor(shards):
    """A block of the first round that follows another one of it in its shard."""
    numbers = round_blocks(shards)[0]
    return next(block for block in numbers if block - 1 in numbers and block % 4)


@pytest.mark.parametrize("container", ["arrow", "tar"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("threads", [0, 1, 2])
def test_a_slow_store_gives_the_same_rows_by_one_request_for_neighbors(
    tmp_path, container, codec, threads
):
    """24 blocks of six shards, 8 a round; each comes once, also 50 ms away."""
    local = toy_set(tmp_path, SIZES, block_rows=8, container=container, codec=codec)
    blocks = block_ranges(local)
    server = ShardServer(tmp_path)
    server.hold = lambda name, start: time.sleep(0.05 if threads else 0)

    with server.site.running():
        rows, stats = one_pass(open_shards(server.url), io_threads=threads)

    assert rows == one_pass(local)[0]

    # the requests are the runs of neighbors in the rounds
    asked = [each for each in server.served if each[0].startswith("shard-")]
    wanted = []
    for numbers in round_blocks(local):
        assert len(numbers) == LANES
        runs = []
        for block in sorted(numbers):
            name, start, stop = blocks[block]
            if runs and block - 1 in numbers and runs[-1][0] == name:
                start = runs.pop()[1]
            runs.append((name, start, stop))
        wanted += runs

    assert sorted(asked) == sorted(wanted)
    assert len(asked) < len(blocks)
    assert stats["blocks"] == len(blocks)


def test_requests_are_in_flight_at_once(tmp_path):
    """The first six wait for each other; one thread with one request would wait for ever."""
    local = toy_set(tmp_path, SIZES, block_rows=8)
    server = ShardServer(tmp_path)
    together = threading.Barrier(6)
    turns = itertools.count()

    def hold(name, start):
        if name.startswith("shard-") and next(turns) < 6:
            together.wait(5)

    server.hold = hold

    with server.site.running():
        shards = open_shards(server.url, options=StoreOptions(retries=0))
        rows, _ = one_pass(shards, io_threads=1)

    assert rows == one_pass(local)[0]


@pytest.mark.parametrize("lanes", [1, 2])
def test_few_lanes_read_further_ahead(tmp_path, lanes):
    """A rank of one lane has one block a round: the blocks of eight rounds are asked for."""
    local = toy_set(tmp_path, [192], block_rows=8)
    server = ShardServer(tmp_path)
    asked = []
    enough = threading.Event()

    def hold(name, start):
        if name.startswith("shard-"):
            asked.append(start)
            if len(asked) >= 8:
                enough.set()
            assert enough.wait(5)

    server.hold = hold
    options = {"lanes": lanes, "global_batch": lanes, "micro_batch": lanes}

    with server.site.running():
        shards = open_shards(server.url, options=StoreOptions(retries=0))
        with open_stream(shards, io_threads=1, **options) as stream:
            found = [row for _ in range(20) for row in rows_of(stream.next_step())]

    with open_stream(local, **options) as stream:
        assert found == [row for _ in range(20) for row in rows_of(stream.next_step())]


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("fault", ["500", "cut", "flip", "short", "garbage"])
def test_a_joined_request_that_fails_costs_requests_only(tmp_path, fault, retries):
    """Without retries its blocks are asked for one by one."""
    local = toy_set(tmp_path, SIZES, block_rows=8)
    server = ShardServer(tmp_path)

    with server.site.running():
        shards = JoinedShards(open_shards(server.url, options=StoreOptions(retries=retries)), [])
        longest = max(stop - start for _, start, stop in block_ranges(local))
        taken = []

        real = server._answer

        def answer(name, request):
            """Spoil the second request for several blocks."""
            first, last = request.headers["Range"].removeprefix("bytes=").split("-")
            if int(last) + 1 - int(first) > longest:
                taken.append(name)
                if len(taken) == 2:
                    server.faults = [fault]
            real(name, request)

        names = {path: path.rpartition("/")[2] for path in server.site.pages}
        server.site.pages = {path: partial(answer, name) for path, name in names.items()}
        rows, _ = one_pass(shards)

    assert len(taken) >= 2
    assert not server.faults
    assert rows == one_pass(local)[0]


def test_a_damaged_block_among_neighbors_is_named(tmp_path):
    """Or its rows are filler, and no other row changes."""
    local = toy_set(tmp_path, SIZES, block_rows=8)
    damaged = later_neighbor(local)
    damage(local, damaged)
    expected, _ = one_pass(local, max_damaged_fraction=0.1)
    server = ShardServer(tmp_path)

    with server.site.running():
        shards = open_shards(server.url)
        with pytest.raises(DamagedBlock) as caught:
            one_pass(shards)
        rows, stats = one_pass(shards, max_damaged_fraction=0.1)

    assert (caught.value.block, damaged // 4) == (damaged % 4, int(local.index.shard[damaged]))
    assert stats["skipped_blocks"] == 1
    assert rows == expected


def test_a_shard_that_was_cut_off_names_its_last_block(tmp_path):
    local = toy_set(tmp_path, [192], block_rows=8)
    path = local.shard_path(0)
    whole = path.read_bytes()
    start = int(local.index.offset[-1])
    server = ShardServer(tmp_path)

    with server.site.running():
        shards = open_shards(server.url, options=StoreOptions(retries=0))
        path.write_bytes(whole[: start + 10])
        with pytest.raises(DamagedBlock) as caught:
            one_pass(shards)

    assert caught.value.block == 23
