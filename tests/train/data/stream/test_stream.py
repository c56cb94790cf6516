"""One rank's batches: the same for every world size, thread, container and resume, and owned by the
caller."""

import json
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import StateMismatch
from clozeline.train.data.stream.collate import Collate
from tests.refusals import refused
from tests.shard_sets import objective, rows, toy_set, write_set
from tests.train.data.stream.streams import contents, open_stream

SIZES = [10, 0, 1, 27, 13]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return toy_set(tmp_path_factory.mktemp("toy"), SIZES)


def steps(stream, count):
    return [contents(stream.next_step()) for _ in range(count)]


def uid_at(shards, origin):
    """Uid of a stored row, from its origin; 0 for filler."""
    return 0 if origin[0] < 0 else int(shards.read_block(int(origin[1])).fixed["uid"][origin[2]])


def ragged_set(folder, **options):
    """Rows of many lengths, in blocks of which some are equally long and some are not."""
    lengths = [5] * 9 + [(7 * n) % 11 + 1 for n in range(30)] + [5] * 12
    first = [
        rows(range(1, 25), lengths[:24]),
        rows(range(25, 52), lengths[24:]),
    ]
    return write_set(folder, first, **options)


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=4).filter(any),
    block_rows=st.integers(1, 9),
    lanes=st.integers(1, 9),
)
def test_every_row_once_an_epoch(tmp_path_factory, sizes, block_rows, lanes):
    shards = toy_set(tmp_path_factory.mktemp("once"), sizes, block_rows=block_rows)
    with open_stream(shards, lanes=lanes, global_batch=lanes, micro_batch=lanes) as stream:
        for epoch in range(1, 4):
            seen = Counter()

            for _ in range(stream.order.lane_rows):
                (batch,) = stream.next_step()
                seen.update(uid_at(shards, origin) for origin in batch.origin)
                assert (batch.row_weight.numpy() == (batch.origin[:, 0] >= 0)).all()

            assert seen.pop(0, 0) == stream.samples_per_epoch - len(shards) < lanes
            assert seen == Counter(range(1, len(shards) + 1))
            assert batch.epoch == epoch
            assert batch.samples == stream.samples == epoch * stream.samples_per_epoch


def test_batches_in_order_of_length_hold_the_same_rows(tmp_path):
    """Length buckets move rows between a rank's micro-batches of a step, never between steps."""
    shards = ragged_set(tmp_path)
    with open_stream(shards) as plain, open_stream(shards, by_length=True) as sorted_stream:
        for _ in range(20):
            batches = sorted_stream.next_step()
            lengths = [row for batch in batches for row in batch.tensors["lengths"].tolist()]
            assert lengths == sorted(lengths)
            assert sorted(contents(batches)) == sorted(contents(plain.next_step()))


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("seed", {"seed": 4}),
        ("lanes", {"lanes": 2}),
        ("data", {}),
        ("format", {}),
    ],
)
def test_mismatch_names_field_and_values(shards, tmp_path, field, change):
    state = open_stream(shards).state_dict()
    if field == "format":
        state["format"] = 99
    other = open_stream(shards if field != "data" else toy_set(tmp_path, [20]), **change)
    with pytest.raises(StateMismatch) as caught:
        other.load_state_dict(state)
    assert caught.value.field == field
    assert other.samples == 0

    del state[field]
    with pytest.raises(StateMismatch, match=field):
        other.load_state_dict(state)


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
@pytest.mark.parametrize("make", [toy_set, ragged_set])
def test_a_batch_belongs_to_the_caller(tmp_path, architecture, make):
    """Values written into a batch reach neither the others of its step nor later ones, of this
    stream or another."""
    sizes = [[40, 24]] if make is toy_set else []
    shards = make(tmp_path, *sizes, objective=objective(architecture))
    with open_stream(shards) as clean:
        expected = [
            ({name: tensor.clone() for name, tensor in batch.tensors.items()}, batch.origin.copy())
            for _ in range(30)
            for batch in clean.next_step()
        ]

    with open_stream(shards) as spoilt:
        for number in range(30):
            for (tensors, origin), batch in zip(
                expected[4 * number :], spoilt.next_step(), strict=False
            ):
                assert batch.row_weight is batch.tensors["row_weight"]
                assert (batch.origin == origin).all()

                batch.origin[:] = -7

                for name, tensor in tensors.items():
                    assert torch.equal(batch.tensors[name], tensor), name
                    for row in batch.tensors[name]:
                        row.fill_(-7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"world": 3}, "world size must divide the 4 lanes"),
        *[({"rank": rank}, "Stream: rank:") for rank in (1, -1, 0.0, None)],
        *[({"seed": seed}, "Stream: seed:") for seed in (-1, 1 << 64, 1.5, "1", None)],
        *[({"lanes": lanes}, "Stream: lanes:") for lanes in (0, -1, 2.0)],
        ({"io_threads": -1}, "Stream: io_threads:"),
        ({"prefetch_blocks": -1}, "Stream: prefetch_blocks:"),
        ({"memory_bytes": 0}, "Stream: memory_bytes:"),
        ({"max_damaged_fraction": math.nan}, "Stream: max_damaged_fraction:"),
        ({"micro_batch": 0}, "Stream: micro_batch:"),
        ({"global_batch": 16.0}, "Stream: global_batch:"),
        ({"global_batch": 6}, "global_batch 6 is not a multiple of the 4 lanes"),
        ({"micro_batch": 3}, "micro_batch 3 does not divide"),
    ],
)
def test_wrong_options(shards, options, message):
    with refused(message):
        open_stream(shards, **options)


@pytest.mark.parametrize("data", ["train", None, [], [[]]])
def test_what_is_no_set_is_refused(data):
    with refused("data: expected"):
        open_stream(data)


def test_numbers_of_numpy_are_those_of_python(shards):
    numbers = {"seed": np.uint64(5), "rank": np.int32(0), "micro_batch": np.int64(4)}
    with open_stream(shards, seed=5, micro_batch=4) as one, open_stream(shards, **numbers) as other:
        one.next_step()
        other.load_state_dict(one.state_dict() | {"samples": np.int64(one.samples)})
        assert json.dumps(other.state_dict()) == json.dumps(one.state_dict())
        assert steps(other, 1) == steps(one, 1)


def test_positions_are_whole_lane_rows(shards):
    with open_stream(shards) as stream:
        for samples in (6, -4, 4.5, "4", None):
            for ask in (stream.set_position, stream.explain):
                with refused("position 6" if samples == 6 else "samples: expected"):
                    ask(samples)

        for state in (None, [], "state"):
            with refused("stream state"):
                stream.load_state_dict(state)


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("call", [1, 6, 30])
def test_after_an_error_the_same_batch_comes(shards, monkeypatch, threads, call):
    """The batch may be built ahead with others, or when it is asked for."""
    with open_stream(shards) as stream:
        expected = steps(stream, 12)
    left = call
    real = Collate.__call__

    def fail_once(*arguments):
        nonlocal left
        left -= 1
        if not left:
            raise MemoryError
        return real(*arguments)

    monkeypatch.setattr(Collate, "__call__", fail_once)

    with open_stream(shards, io_threads=threads) as stream:
        found = []
        with pytest.raises(MemoryError):
            found.extend(contents(stream.next_step()) for _ in range(12))
        assert found + steps(stream, 12 - len(found)) == expected
