"""The stream in the hands of torch's own loader."""

from itertools import islice

import pytest
import torch
from torch.utils.data import DataLoader

from clozeline.errors import StreamError
from clozeline.train.data.stream.phases import phase_of
from clozeline.train.data.stream.torch_dataset import StreamDataset
from tests.refusals import refused
from tests.shard_sets import toy_set
from tests.train.data.stream.streams import open_stream


def test_a_loader_gives_the_micro_batches_and_a_state_continues_them(tmp_path):
    shards = toy_set(tmp_path, [50])
    with open_stream(shards) as stream:
        expected = [batch.tensors for _ in range(5) for batch in stream.next_step()]
    with open_stream(shards) as stream:
        dataset = StreamDataset(stream)
        first = list(islice(DataLoader(dataset, batch_size=None), 8))
        state = dataset.state_dict(step=2)
        assert state == {**stream.state_dict(), "step": 2}

    with open_stream(shards, io_threads=1) as stream:
        dataset = StreamDataset(stream)
        dataset.load_state_dict(state)
        found = [*first, *islice(dataset, 12)]

    for ours, theirs in zip(found, expected, strict=True):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_loader_that_would_stack_micro_batches_is_refused(tmp_path, batch_size):
    with (
        open_stream(toy_set(tmp_path, [50])) as stream,
        pytest.raises(StreamError, match=r"batch_size=None.*micro_batch"),
    ):
        next(iter(DataLoader(StreamDataset(stream), batch_size=batch_size)))


def test_a_state_is_that_of_its_step_however_far_a_loop_has_fetched(tmp_path):
    """Steps of 8 rows, then of 16: the state of each step within reach, also after a load."""
    shards = toy_set(tmp_path, [200])
    phases = [
        phase_of([shards], until_samples=24),
        phase_of([shards], global_batch=16),
    ]
    after = [0, 8, 16, 24, 40, 56, 72]

    with open_stream(phases, micro_batch=8) as stream:
        dataset = StreamDataset(stream)
        taken = iter(dataset)

        for step in range(7):
            for earlier in range(step + 1):
                assert dataset.state_dict(step=earlier)["samples"] == after[earlier]
            next(taken)
            if step >= 3:  # two micro-batches
                next(taken)

        state = dataset.state_dict(step=4)
        dataset.load_state_dict(state)

        assert dataset.state_dict(step=4) == state

        next(iter(dataset))

        assert dataset.state_dict(step=5)["samples"] == 56


def test_a_step_that_the_stream_is_not_near_is_refused(tmp_path):
    """A loop that accumulates twice or half the micro-batches of a global batch, or that has loaded
    no state."""
    with open_stream(toy_set(tmp_path, [50])) as stream:
        dataset = StreamDataset(stream)
        list(islice(dataset, 4 * 20))

        assert dataset.state_dict(step=19)["samples"] == 19 * 8

        for step in (21, 10, 40):
            with pytest.raises(StreamError, match="from 12 to 20"):
                dataset.state_dict(step=step)

        with refused("step: expected"):
            dataset.load_state_dict(stream.state_dict())


@pytest.mark.parametrize(("rows", "micro_batch"), [(1, 2), (37, 4), (40, 8), (41, 2)])
def test_a_pass_has_every_row_once_and_as_many_micro_batches_as_it_says(
    tmp_path, rows, micro_batch
):
    shards = toy_set(tmp_path, [rows])

    for world in (1, 2):
        if micro_batch > 8 // world:
            continue
        found = []
        counts = []

        for rank in range(world):
            with open_stream(shards, rank, world, micro_batch=micro_batch) as stream:
                dataset = StreamDataset(stream, passes=1)
                for _ in range(2):  # each evaluation reads the set from its start
                    batches = list(DataLoader(dataset, batch_size=None))
                    assert len(batches) == len(dataset) == len(DataLoader(dataset, batch_size=None))

                counts.append(len(batches))
                found += [
                    ids
                    for one in batches
                    for ids in one["input_ids"][one["row_weight"] > 0].tolist()
                ]

        assert sorted(found) == sorted(row["input_ids"].tolist() for row in shards)
        assert len(set(counts)) == 1, "ranks that gather together take as many"
