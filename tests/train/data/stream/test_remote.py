"""Ranks that train on a set at a URL."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from clozeline.pipeline.shards import open_shards
from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.stopping import INTERRUPTED_MESSAGE
from tests.distributed import Ranks, run_ranks
from tests.shard_server import ShardServer
from tests.shard_sets import toy_set
from tests.train import faulty
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.runs import steps


def test_ranks_of_a_node_start_together(tmp_path: Path) -> None:
    """All see the global batches of one process."""
    size = 8
    shards = toy_set(tmp_path / "set", [150, 170], block_rows=10)
    server, all_here = ShardServer(tmp_path / "set"), threading.Barrier(size)

    def hold(name: str, start: int | None) -> None:
        if name == "manifest.json":
            all_here.wait(60)

    server.hold = hold
    with server.site.running():
        finished = run_ranks(size, faulty.stream_an_epoch, server.url, folder=tmp_path)
    assert finished.codes == [0] * size, finished.errors
    found = [json.loads(output) for output in finished.outputs]
    asked = Counter(server.asked)
    assert 1 <= asked["index.arrow"] <= size
    # the loop of fsspec, and the threads that look up names, stay for the next request
    assert max(max(rank["left"]) for rank in found) <= 8
    with Stream(shards, rank=0, world_size=1, lanes=8, seed=3, global_batch=16, micro_batch=16) as stream:
        for step in range(stream.samples_per_epoch // 16):
            rows = [row for rank in found for row in rank["rows"][step]]
            assert rows == stream.next_step()[0].origin.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGINT", marks=pytest.mark.slow)])
def test_a_signal_ends_a_run_that_waits_for_a_store(tmp_path: Path, name: str) -> None:
    """The store does not answer from the second round on; the state is saved all the same, and the run can go on."""
    shards = open_shards(write_masked_sets(tmp_path / "corrupt"))
    with Stream(shards, rank=0, world_size=1, lanes=4, seed=0, global_batch=8, micro_batch=8) as stream:
        first = {int(row[1]) for _ in range(8) for row in stream.next_step()[0].origin}
    first |= set(np.flatnonzero(shards.index.block == 0).tolist())  # what the plan of a run looks at
    stored = [(shards.shard_path(int(shards.index.shard[n])).name, int(shards.index.offset[n])) for n in first]
    server, waiting = ShardServer(shards.path.parent), tmp_path / "waiting"
    server.hold = lambda name, start: hang(server) if "shard-" in name and (name, start) not in stored else None
    waiting.mkdir()
    with server.site.running():
        config = write_config(tmp_path / "a.yaml", Path(server.url), tmp_path / "run", steps=12, schedule__steps=12)
        arguments = ("--config", str(config))
        ranks = Ranks(2, faulty.tell_of_step, (9, str(waiting), *arguments), tmp_path)
        for rank in range(2):
            ranks.wait_for(waiting / str(rank))
        for process in ranks.processes:
            os.kill(process.pid or 0, getattr(signal, name))
        finished = ranks.finish()
        assert finished.codes == [75, 75], finished.errors
        assert "start the same command again" in finished.outputs[0]
        assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("step-*")] == ["step-00000008"]
        server.released.set()
        assert run_ranks(2, faulty.train_normally, *arguments, folder=tmp_path).codes == [0, 0]
    config = write_config(
        tmp_path / "b.yaml", shards.path, tmp_path / "straight", steps=12, schedule__steps=12, data__heldout={}
    )
    assert run_ranks(2, faulty.train_normally, "--config", str(config), folder=tmp_path).codes == [0, 0]
    runs = [steps(tmp_path / folder) for folder in ("run", "straight")]
    losses = [[(record["step"], record["loss"].hex()) for record in records] for records in runs]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 12


def test_a_signal_ends_a_start_that_waits_for_a_store(tmp_path: Path) -> None:
    """A plan reads one block of each set before the first step."""
    shards = write_masked_sets(tmp_path / "corrupt")
    server, asked = ShardServer(shards.parent), threading.Event()

    def hold(name: str, start: int | None) -> None:
        if "shard-" in name and start is not None:
            asked.set()
            hang(server)

    server.hold = hold
    with server.site.running():
        config = write_config(tmp_path / "a.yaml", Path(server.url), tmp_path / "run")
        ranks = Ranks(1, faulty.train_normally, ("--config", str(config)), tmp_path)
        assert asked.wait(60)
        os.kill(ranks.processes[0].pid or 0, signal.SIGTERM)
        finished = ranks.finish()
        server.released.set()
    assert (finished.codes, finished.errors) == ([75], [f"{INTERRUPTED_MESSAGE}\n"])


def hang(server: ShardServer) -> None:
    server.released.wait(60)
