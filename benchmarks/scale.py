"""A million shards and ten thousand ranks: what opening a set and finding a rank's blocks cost, without any data.

The manifest and the index are synthetic (one full block a shard); nothing is written but those two, so listing the
shards' files, some microseconds each, is not counted. What a rank does to know what it reads is measured for a sample
of ranks: opening, memory, a block of the order, a round of a rank's lanes, the origin of a row in a late epoch.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import psutil

from benchmarks.peers.clozeline import BLOCK_ROWS, finish_set
from benchmarks.peers.limits import Claim, finish
from pipeline.shards import Block, ShardInfo
from pipeline.shards.index import read_index
from pipeline.shards.manifest import Manifest
from train.stream.order import BlockOrder, LogicalBlocks

_ROW_BYTES = 1057
_RANKS_TRIED = 50


def write_synthetic(folder: Path, shards: int) -> None:
    """Write manifest and index of shards that do not exist."""
    length = BLOCK_ROWS * _ROW_BYTES
    infos = [
        ShardInfo(
            path=f"shard-{number:07d}.arrow",
            bytes=length + 1000,
            sha256=f"{number:064x}",
            rows=BLOCK_ROWS,
            blocks=(Block(400, length, BLOCK_ROWS, number.to_bytes(16, "big")),),
            tokens=BLOCK_ROWS * 512,
            longest=512,
            largest_block=length,
        )
        for number in range(shards)
    ]
    finish_set(folder, folder, infos)


def resident() -> float:
    """Return resident memory of this process, MiB."""
    return float(psutil.Process().memory_info().rss / 2**20)


def measure(folder: Path, ranks: int) -> dict[str, float]:
    """Measure one rank's start and steps, in a process that has not written the set."""
    before, begun = resident(), time.perf_counter()
    manifest = Manifest.load(folder / "manifest.json")
    loaded = time.perf_counter()
    index = read_index(
        folder / manifest.index.path, manifest.index.bytes, manifest.index.sha256, manifest.totals.blocks
    )
    blocks = LogicalBlocks(index.rows, manifest.block_rows)
    order = BlockOrder(manifest.name, manifest.totals.samples, manifest.block_rows, 1, ranks)
    opened = time.perf_counter()
    found = {
        "shards": len(manifest.shards),
        "ranks": ranks,
        "manifest s": loaded - begun,
        "index s": opened - loaded,
        "heap MiB": resident() - before,
    }
    begun = time.perf_counter()
    for place in range(1000):
        order.block(3, place * (order.blocks // 1000))
    found["block us"] = (time.perf_counter() - begun) / 1000 * 1e6
    begun = time.perf_counter()
    for rank in range(0, ranks, max(1, ranks // _RANKS_TRIED)):
        turn = order.round_at(5 * order.lane_rows + 7)
        for load in order.loads(turn, rank, rank + 1):
            blocks.pieces(load.block)
            order.row_order(load.epoch, load.block)
    found["round of a rank us"] = (time.perf_counter() - begun) / _RANKS_TRIED * 1e6
    begun = time.perf_counter()
    for number in range(200):
        row = order.row(number * (ranks // 200), 11 * order.lane_rows + 13 * number)
        if row is not None:
            assert order.where(row[1], row[2], row[0])[0] == number * (ranks // 200)
    found["row and back us"] = (time.perf_counter() - begun) / 200 * 1e6
    assert np.all(index.rows == BLOCK_ROWS)
    return found


def claims(found: Mapping[str, float]) -> list[Claim]:
    """Return the figures beside their limits."""
    case = f"{found['shards']:,.0f} shards, {found['ranks']:,.0f} ranks"
    limits = {"open s": 5.0, "heap MiB": 300.0, "block us": 20.0}
    figures = {**found, "open s": found["manifest s"] + found["index s"]}
    return [Claim(case, name, figures[name], limit) for name, limit in limits.items()]


def main() -> int:
    """Write the synthetic set in one process, measure it in another; the exit code is 1 if a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shards", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="measure the set in this folder, written before")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.folder:
        print(json.dumps(measure(arguments.folder, arguments.ranks)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        write_synthetic(Path(temporary), arguments.shards)
        found = in_fresh_process(Path(temporary), arguments.ranks)
    print(f"| {' | '.join(found)} |\n{'|---' * len(found)}|\n| {' | '.join(f'{v:,.1f}' for v in found.values())} |")
    return finish(claims(found), arguments.json)


def in_fresh_process(folder: Path, ranks: int) -> dict[str, float]:
    """`measure` in a process that has not held the set's records."""
    import subprocess

    command = [sys.executable, __file__, "--folder", str(folder), "--ranks", str(ranks)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(result.stderr)
    found: dict[str, float] = json.loads(result.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
