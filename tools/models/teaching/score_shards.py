"""Write the shards of a column set with the scores of a teacher, in one process or several."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import SetWriter, ShardSet, open_shards
from clozeline.pipeline.shards.layout import Compression
from clozeline.tools.runs.inference.teacher_scores import TeacherScores, score_columns
from clozeline.train.data.sets.stored_scores import StoredScores
from clozeline.train.distributed.process_group import device_of
from clozeline.train.startup.teacher_model import open_teacher


class Task(NamedTuple):
    """A column set to write."""

    run: Path
    """folder of the teacher"""
    shards: Path
    """manifest of the set, or its folder"""
    output: Path
    """folder of the column set"""
    stored: StoredScores


class Worker:
    """The teacher and the set of one process, which writes any shard of the column set."""

    def __init__(self, task: Task) -> None:
        torch.set_num_threads(1)  # sums of several threads would depend on their number
        self.shards = open_shards(task.shards)
        self.output = Output(task.output)
        self.writer = writer_of(self.shards, task.stored)
        self.scores = TeacherScores(
            open_teacher(task.run, None, self.shards, "RUN"), self.shards, task.stored, _device()
        )

    def write(self, shard: int) -> int:
        """Write a shard; return its number."""
        self.writer.write_shard(self.output, shard, self._blocks(shard))
        return shard

    def _blocks(self, shard: int) -> Iterator[Rows]:
        for block in np.flatnonzero(self.shards.index.shard == shard).tolist():
            if block in self.shards.quarantined:  # nothing reads it: its rows get no scores
                empty = np.zeros(int(self.shards.index.rows[block]) + 1, np.int64)
                yield Rows({}, {spec.name: Ragged(np.zeros(0, spec.dtype), empty) for spec in self.writer.columns})
            else:
                yield self.scores.score(self.shards.read_block(block))


def write_shards(task: Task, shards: Sequence[int], processes: int | None) -> Iterator[int]:
    """Write shards in this process, or in several; yield the number of each that is written.

    Args:
        task: what to write.
        shards: their numbers.
        processes: that share them, with a thread each; None: one per CPU core, or 1 on a GPU.
    """
    default = 1 if _device().type == "cuda" else len(os.sched_getaffinity(0))
    processes = min(processes or default, len(shards))
    if processes <= 1:
        threads = torch.get_num_threads()
        try:
            worker = Worker(task) if shards else None
            yield from (worker.write(shard) for shard in shards if worker is not None)
        finally:
            torch.set_num_threads(threads)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), _start_worker, (task,)) as pool:
        futures = [pool.submit(_write_shard, shard) for shard in shards]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


_WORKERS: list[Worker] = []  # the worker of a process of the pool


def _start_worker(task: Task) -> None:
    _WORKERS[:] = [Worker(task)]


def _write_shard(shard: int) -> int:
    return _WORKERS[0].write(shard)


def writer_of(shards: ShardSet, stored: StoredScores) -> SetWriter:
    """Return the writer of a column set of `shards`."""
    columns = score_columns(stored, shards.manifest.tokenizer.vocab_size)
    count, rows = len(shards.manifest.shards), shards.manifest.block_rows
    return SetWriter("", count, columns, rows, compression=Compression(codec="none"))


def _device() -> torch.device:
    return device_of({"LOCAL_RANK": "0", **os.environ})
