"""Ranks that train on a set at a URL."""

import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path

from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.stopping import INTERRUPTED_MESSAGE
from tests.distributed import Ranks, run_ranks
from tests.range_site import ShardServer
from tests.shard_sets import toy_set
from tests.train import faulty
from tests.train.masked_set import write_config, write_masked_sets


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
