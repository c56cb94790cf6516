"""The stream from a store that answers every request after 50 ms: how near it comes to what its threads can fetch.

By Little's law `threads` requests in flight give at most threads / 0.05 s blocks a second; a stream that leaves a
thread idle, or waits for one round before it asks for the next, stays below.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.loader import token_rows, write_ours
from pipeline.shards import ShardSet, open_shards
from train.stream import Stream

_LATENCY_S = 0.05
_LANES = 8


class SlowSet(ShardSet):
    """A set on a disk that behaves like one far away."""

    def read_block(self, *arguments: Any, **options: Any) -> Any:
        """The block, after the latency."""
        time.sleep(_LATENCY_S)
        return super().read_block(*arguments, **options)


def measure(shards: ShardSet, threads: int) -> dict[str, float]:
    """Blocks a second over two epochs, and the bound."""
    slow = SlowSet(shards.path, shards.manifest, shards.index)
    options: Any = {"seed": 1, "global_batch": 32, "micro_batch": 32, "lanes": _LANES, "io_threads": threads}
    with Stream(slow, rank=0, world_size=1, **options) as stream:
        stream.next_step()
        begun, blocks, samples = time.perf_counter(), stream.stats()["blocks"], stream.samples
        while stream.samples < samples + 2 * stream.samples_per_epoch:
            stream.next_step()
        seconds = time.perf_counter() - begun
        read = stream.stats()["blocks"] - blocks
        return {"threads": threads, "blocks/s": read / seconds, "bound": threads / _LATENCY_S}


def main() -> None:
    """Write a set, measure it with several numbers of threads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=int, default=122_880)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "set"
        write_ours(Path(temporary), folder, np.asarray(token_rows(arguments.samples)), "none")
        shards = open_shards(folder)
        rows = [measure(shards, threads) for threads in (2, 4, 8)]
    print("| io threads | blocks/s | bound | share | target | holds |\n|---|---|---|---|---|---|")
    for row in rows:
        share = row["blocks/s"] / row["bound"]
        print(f"| {row['threads']} | {row['blocks/s']:.1f} | {row['bound']:.0f} | {share:.2f} | 0.9 | "
              f"{'yes' if share >= 0.9 else 'NO'} |")  # fmt: skip
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
