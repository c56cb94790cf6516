"""A stream over ten thousand blocks: its memory stays flat, and the training thread pays little for a batch.

The set is small and read again and again, every block checked each time; what is measured is this process: memory
beyond its imports, CPU time of the thread that takes batches, child processes and shared memory.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parent.parent))

import psutil
import torch

from benchmarks.loader import token_rows, write_ours
from pipeline.shards import open_shards
from train.stream import Stream

_LANES = 8
_WARM_BLOCKS = 500
"""Blocks after which everything that is kept has its size."""
_MIB = 2**20


def measure(folder: Path, blocks: int) -> list[dict[str, Any]]:
    """Rows of the table: what, figure, largest allowed."""
    torch.set_num_threads(1)
    process = psutil.Process()
    shards = open_shards(folder)
    before = process.memory_info().rss
    options: Any = {"seed": 1, "global_batch": 32, "micro_batch": 32, "lanes": _LANES}
    with Stream(shards, rank=0, world_size=1, **options) as stream:
        _read(stream, _WARM_BLOCKS)
        warm, steps = process.memory_info().rss, stream.samples
        begun = time.thread_time()
        _read(stream, blocks)
        spent = (time.thread_time() - begun) / ((stream.samples - steps) / 32)
        after, children = process.memory_info().rss, len(process.children(recursive=True))
        shared = sum(part.path.startswith("/dev/shm") for part in process.memory_maps())
    budget = 2 * _LANES * shards.manifest.max_block_bytes  # a round in use and the one ahead
    return [
        {"what": "MiB beyond the imports", "figure": (after - before) / _MIB, "most": (2 * budget) / _MIB + 150},
        {"what": f"MiB gained from block {_WARM_BLOCKS} to {blocks}", "figure": (after - warm) / _MIB, "most": 16},
        {"what": "us of the training thread a batch", "figure": spent * 1e6, "most": 15},
        {"what": "child processes", "figure": children, "most": 0},
        {"what": "parts of shared memory", "figure": shared, "most": 0},
    ]


def _read(stream: Stream, blocks: int) -> None:
    while stream.stats()["blocks"] < blocks:
        for _ in range(1000):
            stream.next_step()


def main() -> None:
    """Write a set, stream it, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--blocks", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        write_ours(Path(temporary), Path(temporary) / "set", token_rows(arguments.samples), "none")
        rows = measure(Path(temporary) / "set", arguments.blocks)
    print("| of the process | figure | at most | holds |\n|---|---|---|---|")
    for row in rows:
        row["holds"] = row["figure"] <= row["most"]
        print(f"| {row['what']} | {row['figure']:.1f} | {row['most']:.0f} | {'yes' if row['holds'] else 'NO'} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
