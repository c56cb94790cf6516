"""The stream from a store that answers every request after 50 ms: how near it comes to what its threads can fetch.

By Little's law `threads` requests in flight give at most threads / 0.05 s blocks a second; a stream that leaves a
thread idle, or waits for one round before it asks for the next, stays below.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.peers.clozeline import write_set
from benchmarks.peers.limits import Claim, finish
from benchmarks.peers.workload import BATCH, packed_lengths, token_rows
from pipeline.shards import ShardSet, open_shards
from train.stream.stream import Stream

_LATENCY_S = 0.05
_SHARE = 0.9


class SlowSet(ShardSet):
    """A set on a disk that behaves like one far away."""

    def read_block(self, *arguments: Any, **options: Any) -> Any:
        """Read the block after the latency."""
        time.sleep(_LATENCY_S)
        return super().read_block(*arguments, **options)


def measure(shards: ShardSet, threads: int) -> Claim:
    """Measure blocks a second over two epochs, beside the bound."""
    slow = SlowSet(shards.path, shards.manifest, shards.index)
    options: Any = {"seed": 1, "global_batch": BATCH, "micro_batch": BATCH, "io_threads": threads}
    with Stream(slow, rank=0, world_size=1, **options) as stream:
        stream.next_step()
        begun, blocks, samples = time.perf_counter(), stream.stats()["blocks"], stream.samples
        while stream.samples < samples + 2 * stream.samples_per_epoch:
            stream.next_step()
        rate = (stream.stats()["blocks"] - blocks) / (time.perf_counter() - begun)
    return Claim(f"{threads} threads", "blocks/s", rate, threads / _LATENCY_S, "bound", _SHARE, more=True)


def main() -> int:
    """Write a set, measure it with several numbers of threads; the exit code is 1 if one stays below its share."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=int, default=122_880)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "set"
        lengths = packed_lengths(arguments.samples)
        write_set(Path(temporary), folder, token_rows(lengths), lengths, "none")
        shards = open_shards(folder)
        claims = [measure(shards, threads) for threads in (2, 4, 8)]
    return finish(claims, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
