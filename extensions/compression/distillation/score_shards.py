"""Write the shards of a column set with the scores of a teacher, in one process or several.

Each block is scored separately and published as an intermediate file; the shards are joined from
these files in order. So the number of processes changes no byte, and a killed command continues at
the block where it stopped.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from clozeline.extensions.compression.distillation.stored_scores import COLUMNS, StoredScores
from clozeline.extensions.compression.distillation.teacher_model import open_teacher
from clozeline.extensions.compression.distillation.teacher_scores import (
    TeacherScores,
    score_columns,
)
from clozeline.files import publish
from clozeline.pipeline.block_options import Compression
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import SetWriter, ShardSet, open_shards
from clozeline.process import child_context, die_with
from clozeline.train.distributed.process_group import device_of


class ColumnTask(NamedTuple):
    """A column set to write."""

    run: Path
    """folder of the teacher"""
    shards: Path
    """manifest of the set, or its folder"""
    output: Path
    """folder of the column set"""
    stored: StoredScores

    def part(self, block: int) -> Path:
        """Return the intermediate file with the scores of a block, counted over all shards."""
        return self.output / f"tmp/blocks/{block:08d}.npz"


class Worker:
    """The teacher and the set of one process, which scores any block."""

    def __init__(self, task: ColumnTask) -> None:
        torch.set_num_threads(1)  # sums of several threads would depend on their number
        self.task = task
        self.shards = open_shards(task.shards)
        teacher = open_teacher(task.run, None, self.shards, "RUN")
        self.scores = TeacherScores(teacher, self.shards, task.stored, _device())

    def score(self, block: int) -> None:
        """Publish the scores of a block."""
        columns = self.scores.score(self.shards.read_block(block)).columns
        ids, weights = (columns[name] for name in COLUMNS)
        with publish(self.task.part(block)) as path, path.open("wb") as file:
            np.savez(
                file, offsets=ids.offsets, teacher_ids=ids.values, teacher_weights=weights.values
            )


def write_shards(task: ColumnTask, shards: ShardSet, processes: int | None) -> Iterator[int]:
    """Write the shards that are not written yet, and yield the number of each.

    `processes` share the blocks, with a thread each; None: one per CPU core, or 1 on a GPU.
    """
    output = Output(task.output)
    writer = writer_of(shards, task.stored)
    missing = [shard for shard in range(writer.shards) if not writer.is_written(output, shard)]
    blocks = {shard: np.flatnonzero(shards.index.shard == shard).tolist() for shard in missing}
    due = [
        block
        for shard_blocks in blocks.values()
        for block in shard_blocks
        if not task.part(block).exists()
    ]
    with _score_blocks(task, due, processes) as scored:

        def read_scores(block: int) -> RowBatch:
            while not task.part(block).exists():
                next(scored)
            with np.load(task.part(block)) as part:
                return RowBatch(
                    {},
                    {
                        spec.name: Ragged(part[spec.name], part["offsets"])
                        for spec in writer.columns
                    },
                )

        for shard, shard_blocks in blocks.items():
            writer.write_shard(output, shard, map(read_scores, shard_blocks))
            for block in shard_blocks:
                task.part(block).unlink(missing_ok=True)
            yield shard


@contextmanager
def _score_blocks(
    task: ColumnTask, blocks: list[int], processes: int | None
) -> Iterator[Iterator[None]]:
    """Yield an iterator that scores the next block.

    Blocks are scored in this process or in several that work ahead.
    """
    default = 1 if _device().type == "cuda" else len(os.sched_getaffinity(0))
    processes = min(processes or default, len(blocks))
    threads = torch.get_num_threads()

    if processes > 1:
        with ProcessPoolExecutor(
            processes, child_context("spawn"), die_with, (os.getpid(),)
        ) as pool:
            try:
                yield pool.map(partial(_score_block, task), blocks)
            finally:
                pool.shutdown(cancel_futures=True)
        return

    try:
        yield map(Worker(task).score, blocks) if blocks else iter(())
    finally:
        torch.set_num_threads(threads)


_worker = cache(Worker)  # of a process of the pool


def _score_block(task: ColumnTask, block: int) -> None:
    _worker(task).score(block)


def writer_of(shards: ShardSet, stored: StoredScores) -> SetWriter:
    """Return the writer of a column set of `shards`."""
    columns = score_columns(stored, shards.manifest.tokenizer.vocab_size)
    count = len(shards.manifest.shards)
    rows = shards.manifest.block_rows
    return SetWriter("", count, columns, rows, compression=Compression(codec="none"))


def _device() -> torch.device:
    return device_of({"LOCAL_RANK": "0", **os.environ})
