"""A million shards and ten thousand ranks: the cost of opening a set and finding a rank's blocks, without any data.

    python -m benchmarks.scale [--shards 1000000] [--ranks 10000] [--json FILE]

The manifest and the index are synthetic (one full block a shard) and the only files; listing the files of the shards,
some microseconds each, is not counted. For a sample of ranks it measures opening, memory, a block of the order, a round
of a rank's lanes, and the origin of a row in a late epoch.
"""

import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import Claim, finish, parser, print_table, resident_bytes, run_script

import numpy as np

from benchmarks.peers.clozeline import BLOCK_ROWS, finish_set
from clozeline.pipeline.shards import Block, ShardInfo
from clozeline.pipeline.shards.index import read_index
from clozeline.pipeline.shards.manifest import Manifest
from clozeline.train.data.stream.order import BlockOrder, LogicalBlocks

_ROW_BYTES = 1057
_SAMPLED_RANKS = 50
_LIMITS = {"open s": 5.0, "heap MiB": 300.0, "block us": 20.0}


def write_synthetic(folder: Path, shards: int) -> None:
    """Write manifest and index of shards that do not exist."""
    length = BLOCK_ROWS * _ROW_BYTES
    infos = []
    for number in range(shards):
        block = Block(400, length, BLOCK_ROWS, number.to_bytes(16, "big"))
        tokens: Any = {"tokens": BLOCK_ROWS * 512, "longest": 512, "largest_block": length}
        path, sha256 = f"shard-{number:07d}.arrow", f"{number:064x}"
        infos.append(ShardInfo(path, length + 1000, sha256, BLOCK_ROWS, (block,), **tokens))
    finish_set(folder, folder, infos)


def measure(folder: Path, ranks: int) -> dict[str, float]:
    """Measure a rank's start and steps; the process must not be the one that wrote the set."""
    before, start = resident_bytes(), time.perf_counter()
    manifest = Manifest.load(folder / "manifest.json")
    loaded = time.perf_counter()
    index = read_index(
        folder / manifest.index.path, manifest.index.bytes, manifest.index.sha256, manifest.totals.blocks
    )
    blocks = LogicalBlocks(index.rows, manifest.block_rows)
    order = BlockOrder(manifest.name, manifest.totals.samples, manifest.block_rows, 1, ranks)
    opened = time.perf_counter()
    figures = {
        "shards": len(manifest.shards), "ranks": ranks, "manifest s": loaded - start, "index s": opened - loaded,
        "heap MiB": (resident_bytes() - before) / 2**20,
    }  # fmt: skip
    # The block at a position of the order.
    start = time.perf_counter()
    for position in range(1000):
        order.block(3, position * (order.blocks // 1000))
    figures["block us"] = (time.perf_counter() - start) / 1000 * 1e6
    # Everything that a rank loads in one round.
    start = time.perf_counter()
    for rank in range(0, ranks, max(1, ranks // _SAMPLED_RANKS)):
        turn = order.round_at(5 * order.lane_rows + 7)
        for load in order.loads(turn, rank, rank + 1):
            blocks.pieces(load.block)
            order.row_order(load.epoch, load.block)
    figures["round of a rank us"] = (time.perf_counter() - start) / _SAMPLED_RANKS * 1e6
    # The row at a position of a lane, and back.
    start = time.perf_counter()
    for number in range(200):
        row = order.row(number * (ranks // 200), 11 * order.lane_rows + 13 * number)
        if row is not None:
            assert order.where(row[1], row[2], row[0])[0] == number * (ranks // 200)
    figures["row and back us"] = (time.perf_counter() - start) / 200 * 1e6
    assert np.all(index.rows == BLOCK_ROWS)
    return figures


def in_fresh_process(folder: Path, ranks: int) -> Mapping[str, float]:
    figures: dict[str, float] = run_script(__file__, "--folder", folder, "--ranks", ranks)
    return figures


def main() -> int:
    """Write the synthetic set in one process, measure it in another; the exit code is 1 if a limit is exceeded."""
    folder: Any = (Path, "measure the set in this folder, which is there already")
    options = parser(__doc__, shards=1_000_000, ranks=10_000, folder=folder).parse_args()
    if options.folder:
        print(json.dumps(measure(options.folder, options.ranks)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        write_synthetic(Path(temporary), options.shards)
        figures = in_fresh_process(Path(temporary), options.ranks)
    print_table(figures, [[f"{value:,.1f}" for value in figures.values()]])
    case = f"{figures['shards']:,.0f} shards, {figures['ranks']:,.0f} ranks"
    figures = {**figures, "open s": figures["manifest s"] + figures["index s"]}
    return finish([Claim(case, name, figures[name], limit) for name, limit in _LIMITS.items()], options.json)


if __name__ == "__main__":
    sys.exit(main())
