"""The stream from a store that answers every request after 50 ms, compared with what its threads can fetch.

    python -m benchmarks.slow_store [--samples 122880] [--json FILE]

By Little's law `threads` requests in flight give at most threads / 0.05 s blocks per second; a stream that leaves a
thread idle, or waits for one round before it requests the next, stays below that.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import Claim, finish, parser

from benchmarks.peers.clozeline import write_set
from benchmarks.peers.workload import BATCH, draw_packed_lengths, token_rows
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.train.data.stream.stream import Stream

_LATENCY_S = 0.05
_SHARE = 0.9
"""Smallest share of the bound."""


class SlowSet(ShardSet):
    """A set on the local disk with the latency of a remote store."""

    def read_block(self, *arguments: Any, **options: Any) -> Any:
        time.sleep(_LATENCY_S)
        return super().read_block(*arguments, **options)


def measure(shards: ShardSet, threads: int) -> Claim:
    """Measure blocks per second over two epochs."""
    slow = SlowSet(shards.path, shards.manifest, shards.index)
    options: Any = {"seed": 1, "global_batch": BATCH, "micro_batch": BATCH, "io_threads": threads}
    with Stream(slow, rank=0, world_size=1, **options) as stream:
        stream.next_step()
        start, blocks, samples = time.perf_counter(), stream.stats()["blocks"], stream.samples
        while stream.samples < samples + 2 * stream.samples_per_epoch:
            stream.next_step()
        rate = (stream.stats()["blocks"] - blocks) / (time.perf_counter() - start)
    return Claim(f"{threads} threads", "blocks/s", rate, threads / _LATENCY_S, "bound", _SHARE, more=True)


def main() -> int:
    """Measure with 2, 4 and 8 threads; the exit code is 1 if one of them stays below its share."""
    options = parser(__doc__, samples=122_880).parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder, lengths = Path(temporary) / "set", draw_packed_lengths(options.samples)
        write_set(Path(temporary), folder, token_rows(lengths), lengths, "none")
        shards = open_shards(folder)
        claims = [measure(shards, threads) for threads in (2, 4, 8)]
    return finish(claims, options.json)


if __name__ == "__main__":
    sys.exit(main())
