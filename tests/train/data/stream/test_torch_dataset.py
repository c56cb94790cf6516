"""The stream in the hands of torch's own loader."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from clozeline.errors import StreamError
from clozeline.train.data.stream.torch_dataset import StreamDataset
from tests.shard_sets import toy_set
from tests.train.data.stream.streams import open_stream


def test_a_loader_gives_the_micro_batches_and_a_state_continues_them(tmp_path: Path) -> None:
    shards = toy_set(tmp_path, [50])
    with open_stream(shards) as stream:
        expected = [batch.tensors for _ in range(5) for batch in stream.next_step()]
    with open_stream(shards) as stream:
        dataset = StreamDataset(stream)
        first = list(islice(DataLoader(dataset, batch_size=None), 8))
        state = dataset.state_dict()
        assert state == stream.state_dict()
    with open_stream(shards, io_threads=1) as stream:
        dataset = StreamDataset(stream)
        dataset.load_state_dict(state)
        found = [*first, *islice(dataset, 12)]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_new_position_drops_the_rest_of_a_step(tmp_path: Path) -> None:
    """Four micro-batches a step: after one, the state of the step's end leads to the next step, not to the second."""
    with open_stream(toy_set(tmp_path, [50])) as stream:
        dataset = StreamDataset(stream)
        next(iter(dataset))
        assert stream.samples == 8
        dataset.load_state_dict({**dataset.state_dict(), "samples": 0})
        again = [tensors["input_ids"].tolist() for tensors in islice(dataset, 4)]
        stream.set_position(0)
        assert again == [batch.tensors["input_ids"].tolist() for batch in stream.next_step()]


def test_worker_processes_are_refused(tmp_path: Path) -> None:
    with open_stream(toy_set(tmp_path, [50])) as stream:
        loader = DataLoader(StreamDataset(stream), batch_size=None, num_workers=1)
        with pytest.raises(StreamError, match="expected num_workers=0"):
            next(iter(loader))
