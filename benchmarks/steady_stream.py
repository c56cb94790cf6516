"""A stream over ten thousand blocks: its memory stays flat, and a batch costs the training thread little.

    python -m benchmarks.steady_stream [--samples 100000] [--blocks 10000] [--json FILE]

The set is small and read again and again, every block checked each time. Measured are this process's memory beyond its
imports, CPU time of the thread that takes finished batches, child processes and shared memory.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import Claim, finish, parser

import psutil
import torch

from benchmarks.peers.clozeline import LANES, write_set
from benchmarks.peers.workload import BATCH, draw_packed_lengths, token_rows
from clozeline.pipeline.shards import open_shards
from clozeline.train.data.stream.stream import Stream

_WARM_BLOCKS = 500
"""Blocks after which every buffer has its final size."""
_BURSTS = 200
_BURST = 32
"""Batches taken one after another, fewer than the stream builds ahead."""
_PAUSE_S = 0.02
"""Longer than it takes to build them."""
_MB = 1e6


def measure(folder: Path, blocks: int) -> list[Claim]:
    """Return the figures of this process and their limits."""
    torch.set_num_threads(1)
    process = psutil.Process()
    shards = open_shards(folder)
    shared_before, before = _shared_files(), process.memory_info().rss
    options: Any = {"seed": 1, "global_batch": BATCH, "micro_batch": BATCH}
    with Stream(shards, rank=0, world_size=1, **options) as stream:
        _read(stream, _WARM_BLOCKS)
        warm = process.memory_info().rss
        _read(stream, blocks)
        after, children = process.memory_info().rss, len(process.children(recursive=True))
        mapped = sum(part.path.startswith("/dev/shm") for part in process.memory_maps())
        # CPU seconds of this thread per batch that is already built
        taken = 0.0
        for _ in range(_BURSTS):
            time.sleep(_PAUSE_S)
            start = time.thread_time()
            for _ in range(_BURST):
                stream.next_step()
            taken += (time.thread_time() - start) / _BURSTS / _BURST
    budget = 2 * LANES * shards.manifest.max_block_bytes  # per lane one block in use, and one ahead
    return [
        Claim("memory", "MB beyond the imports", (after - before) / _MB, 2 * budget / _MB + 150),
        Claim("memory", f"MB gained from block {_WARM_BLOCKS} to {blocks}", max(0, after - warm) / _MB, 16),
        Claim("training thread", "CPU us to take a batch", taken * 1e6, 15),
        Claim("traces", "child processes", children, 0),
        Claim("traces", "shared memory, mapped or left", mapped + len(_shared_files() - shared_before), 0),
    ]


def _read(stream: Stream, blocks: int) -> None:
    while stream.stats()["blocks"] < blocks:
        for _ in range(1000):
            stream.next_step()


def _shared_files() -> set[str]:
    return {path.name for path in Path("/dev/shm").iterdir()}


def main() -> int:
    """Write a set, stream it, print the table; the exit code is 1 if a limit is exceeded."""
    options = parser(__doc__, samples=100_000, blocks=10_000).parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        lengths = draw_packed_lengths(options.samples)
        write_set(Path(temporary), Path(temporary) / "set", token_rows(lengths), lengths, "none")
        claims = measure(Path(temporary) / "set", options.blocks)
    return finish(claims, options.json)


if __name__ == "__main__":
    sys.exit(main())
