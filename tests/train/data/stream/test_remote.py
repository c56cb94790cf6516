"""Ranks that train on a set at a URL."""

import os
import signal
import threading
from pathlib import Path

from clozeline.train.distributed.stopping import INTERRUPTED_MESSAGE
from tests.distributed import Ranks
from tests.range_site import ShardServer
from tests.train import faulty
from tests.train.masked_set import write_config, write_masked_sets


def test_a_signal_ends_a_start_that_waits_for_a_store(tmp_path):
    """A plan reads one block of each set before the first step."""
    shards = write_masked_sets(tmp_path / "corrupt")
    server = ShardServer(shards.parent)
    asked = threading.Event()

    def hold(name, start):
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


def hang(server):
    server.released.wait(60)
