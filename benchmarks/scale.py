"""The most shards of a set and 512 ranks: what a start and a save cost, without any data.

    python -m benchmarks.scale [--shards 100000] [--ranks 10000] [--savers 512] [--json FILE]

The manifest and the index are synthetic (one full block a shard) and the only files of the first
table. For a sample of ranks it measures opening, memory, a block of the order, a round of a rank's
lanes, and the origin of a row in a late epoch.

The second table runs the code of starts and saves on synthetic metadata, each part in a process of
its own:

- `start`: a rank opens a set of all shards, which are sparse files; one rank of each machine also
  lists them and compares their sizes with the manifest;
- `checkpoint`: the index of a 7B model's ZeRO parts of all ranks is written, read and pruned.

Seconds are CPU seconds: what a file system in a network adds is not in them.
"""

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import (
    Claim,
    finish,
    parser,
    print_table,
    resident_bytes,
    run_script,
    seconds_of,
    system_load,
    temporary_folder,
)

import numpy as np

from benchmarks.peers.clozeline import BLOCK_ROWS, finish_set
from clozeline.configuration.config import validate
from clozeline.pipeline.shards import Block, ShardInfo, ShardSet, open_shards
from clozeline.pipeline.shards.index import parse_index
from clozeline.pipeline.shards.manifest import Manifest
from clozeline.train.checkpoint.retention import prune
from clozeline.train.checkpoint.stored_checkpoint import (
    FileRecord,
    Index,
    ParameterRecord,
    part_name,
)
from clozeline.train.configuration.checkpoint import CheckpointConfig
from clozeline.train.data.stream.order import BlockOrder, LogicalBlocks

SMALLEST = "--shards 200 --ranks 20 --savers 8"
_ROW_BYTES = 1057
_SHARD_BYTES = BLOCK_ROWS * _ROW_BYTES + 1000
_SAMPLED_RANKS = 50
_LIMITS = {"open s": 5.0, "heap MiB": 300.0, "block us": 20.0}


def write_synthetic(folder: Path, shards: int) -> None:
    """Write manifest and index of shards that do not exist."""
    length = BLOCK_ROWS * _ROW_BYTES
    infos = []
    for number in range(shards):
        block = Block(400, length, BLOCK_ROWS, number.to_bytes(16, "big"))
        tokens: Any = {"tokens": BLOCK_ROWS * 512, "longest": 512, "largest_block": length}
        path = f"shard-{number:07d}.arrow"
        sha256 = f"{number:064x}"
        infos.append(ShardInfo(path, _SHARD_BYTES, sha256, BLOCK_ROWS, (block,), **tokens))
    finish_set(folder, folder, infos)


def measure(folder: Path, ranks: int) -> dict[str, float]:
    """Measure a rank's start and steps; the process must not be the one that wrote the set."""
    before = resident_bytes()
    start = time.process_time()
    manifest = Manifest.load(folder / "manifest.json")
    loaded = time.process_time()
    path = folder / manifest.index.path
    index = parse_index(str(path), path.read_bytes(), manifest)
    blocks = LogicalBlocks(index.rows, manifest.block_rows)
    order = BlockOrder(manifest.name, manifest.totals.samples, manifest.block_rows, 1, ranks)
    opened = time.process_time()
    figures = {
        "shards": len(manifest.shards),
        "ranks": ranks,
        "manifest s": loaded - start,
        "index s": opened - loaded,
        "heap MiB": (resident_bytes() - before) / 2**20,
    }
    # The block at a position of the order.
    start = time.process_time()
    for position in range(1000):
        order.block(3, position * (order.blocks // 1000))
    figures["block us"] = (time.process_time() - start) / 1000 * 1e6
    # Everything that a rank loads in one round.
    start = time.process_time()

    for rank in range(0, ranks, max(1, ranks // _SAMPLED_RANKS)):
        turn = order.round_at(5 * order.lane_rows + 7)
        for load in order.loads(turn, rank, rank + 1):
            blocks.pieces(load.block)
            order.row_order(load.epoch, load.block)

    figures["round of a rank us"] = (time.process_time() - start) / _SAMPLED_RANKS * 1e6
    # The row at a position of a lane, and back.
    start = time.process_time()

    for number in range(200):
        lane = number * (ranks // 200)
        position = 11 * order.lane_rows + 13 * number
        turn = order.round_at(position)
        for load in order.loads(turn, lane, lane + 1):
            row = int(order.row_order(load.epoch, load.block)[load.rows][position - turn.start])
            assert order.where(load.block, row, load.epoch) == (lane, position)

    figures["row and back us"] = (time.process_time() - start) / 200 * 1e6

    assert np.all(index.rows == BLOCK_ROWS)

    return figures


def timed(steps: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the CPU seconds of some steps, and the growth of memory over all of them in MiB."""
    before = resident_bytes()
    figures = dict[str, float]()
    for name, step in steps.items():
        figures[f"{name} s"] = seconds_of(step)
    return {**figures, "memory MiB": (resident_bytes() - before) / 2**20}


def measure_start(folder: Path, shards: int) -> dict[str, float]:
    """Open a set as every rank does, then compare its files with the manifest.

    One rank of each machine does the latter.
    """
    write_synthetic(folder, shards)
    for shard in Manifest.load(folder).shards:
        with (folder / shard.path).open("wb") as file:
            file.truncate(_SHARD_BYTES)
    opened: list[ShardSet] = []
    return timed(
        {
            "open": lambda: opened.append(open_shards(folder, check_files=False)),
            "list and compare": lambda: opened[0].check_files(),
        }
    )


def measure_checkpoint(folder: Path, ranks: int) -> dict[str, float]:
    """Write, read and prune checkpoint indexes of 7 billion parameters in 291 tensors.

    Each tensor is split over all ranks.
    """
    size = 7 * 10**9 // 291
    keys = ["weight", "exp_avg", "exp_avg_sq"]
    bounds = [size * rank // ranks for rank in range(ranks + 1)]
    slices = [(rank, start, stop - start) for rank, (start, stop) in enumerate(pairwise(bounds))]
    parameters = {
        f"layer.{number}.weight": ParameterRecord([size], "decay", keys, slices)
        for number in range(291)
    }
    files = {part_name(rank): FileRecord(10**9, "0" * 32) for rank in range(ranks)}
    index = Index({"step": 1}, {"decay": {"step": 1.0}}, parameters, [], files)
    steps = [folder / f"step-{number:08d}" for number in range(1, 6)]
    for path in steps:
        path.mkdir()
    config = validate(CheckpointConfig, {}, "scale")
    return timed(
        {
            "write": lambda: index.write(steps[0]),
            "read": lambda: Index.read(steps[0]),
            "copies": lambda: [
                shutil.copy(steps[0] / "checkpoint.json", path) for path in steps[1:]
            ],
            "prune five": lambda: prune(folder, steps[-1].name, 3, config, ()),
        }
    )


_PARTS: Final[dict[str, tuple[Callable[[Path, int], dict[str, float]], str]]] = {
    "start": (measure_start, "shards"),
    "checkpoint": (measure_checkpoint, "savers"),
}


def main() -> int:
    """Write the synthetic set in one process, measure it in another.

    The exit code is 1 if a limit is exceeded.
    """
    options = parser(
        __doc__,
        shards=100_000,
        ranks=10_000,
        savers=512,
        folder=(Path, "measure the set in this folder, which is there already"),
        part=(str, "measure a single part of the second table"),
    ).parse_args()
    if options.folder:
        print(json.dumps(measure(options.folder, options.ranks)))
        return 0

    if options.part:
        work, amount_of = _PARTS[options.part]
        with temporary_folder() as folder:
            print(json.dumps(work(folder, getattr(options, amount_of))))
        return 0

    with temporary_folder() as folder:
        write_synthetic(folder, options.shards)
        figures = run_script(__file__, "--folder", folder, "--ranks", options.ranks)

    print_table(figures, [[f"{value:,.1f}" for value in figures.values()]])
    starts = {}

    for name, (_, amount_of) in _PARTS.items():
        count = getattr(options, amount_of)
        starts[f"{name}, {count:,} {amount_of}"] = run_script(
            __file__, "--part", name, f"--{amount_of}", count
        )

    rows = [
        (name, ", ".join(f"{key} {value:,.1f}" for key, value in row.items()))
        for name, row in starts.items()
    ]
    print_table(("starts and saves", "figures"), rows, system_load())
    case = f"{figures['shards']:,.0f} shards, {figures['ranks']:,.0f} ranks"
    figures = {**figures, "open s": figures["manifest s"] + figures["index s"]}
    return finish(
        [Claim(case, name, figures[name], limit) for name, limit in _LIMITS.items()], options.json
    )


if __name__ == "__main__":
    sys.exit(main())
