"""The ranks of a node and a set behind a URL."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path

import faulty

from tests.distributed import run_ranks
from tests.shard_server import ShardServer
from tests.shard_sets import toy_set
from train.stream import Stream


def test_ranks_of_a_node_start_together_with_a_cold_cache(tmp_path: Path) -> None:
    """One of them fetches the index, and all see the global batches of one process."""
    size = 8
    shards = toy_set(tmp_path / "set", [150, 170], block_rows=10)
    server, all_here = ShardServer(tmp_path / "set"), threading.Barrier(size)

    def hold(name: str) -> None:
        if name == "manifest.json":
            all_here.wait(60)

    server.hold = hold
    with server.site.running():
        finished = run_ranks(size, faulty.stream_an_epoch, server.url, str(tmp_path / "cache"), folder=tmp_path)
    assert finished.codes == [0] * size, finished.errors
    found = [json.loads(output) for output in finished.outputs]
    asked = Counter(server.asked)
    assert (asked["index.arrow"], asked["manifest.json"]) == (1, size)
    assert [rank["left"] for rank in found] == [[0, 1]] * size, "no descriptor, no thread but the main one"
    with Stream(shards, rank=0, world_size=1, lanes=8, seed=3, global_batch=16, micro_batch=16) as stream:
        for step in range(stream.samples_per_epoch // 16):
            rows = [row for rank in found for row in rank["rows"][step]]
            assert rows == stream.next_step()[0].origin.tolist()
