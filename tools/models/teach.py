"""Store a teacher's scores with its data: `clozeline teach RUN data.shards=SET output=SET2 k=16 [how=top|drawn]`.

RUN is a run or a model folder with the tokenizer of SET. SET2 is a column set: for each label of SET, k classes and
their weights, in the same rows and blocks. A student reads both, without a teacher in memory:
`data.shards={path: SET, columns: [SET2]}`.

The bytes do not depend on the number of processes. Shards that are written stay: after a kill, the same command
continues.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field

from clozeline.configuration.config import config_class, to_plain
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.errors import ConfigurationError
from clozeline.files import publish_json, read_json, sweep
from clozeline.pipeline.execution.output_lock import one_at_a_time
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import Manifest, SetWriter, ShardSet, open_shards
from clozeline.pipeline.shards.column_set import ROWS
from clozeline.pipeline.shards.layout import Compression
from clozeline.tools.command import IntermixedArguments, plural, run_tool, some_path
from clozeline.tools.runs.inference.teacher_scores import TeacherScores, plan_scores, score_columns
from clozeline.tools.settings import add_settings, settings_of
from clozeline.train.data.sets.stored_scores import StoredScores
from clozeline.train.distributed.process_group import device_of
from clozeline.train.startup.teacher_model import TeacherWeights, open_teacher

_PLAN = "tmp/plan.json"


@config_class
class TaughtSet:
    """The set whose labels are scored."""

    shards: Annotated[Path, HOME_EXPANDED]
    """manifest.json of a set of examples, or its folder"""


@config_class
class TeachOptions:
    """The set, the form of the scores, and the output."""

    data: TaughtSet
    output: Annotated[Path, HOME_EXPANDED]
    """folder of the column set"""
    k: Annotated[int, Field(ge=1)] = 16
    """top: the most likely classes, kept for each label; all of them are stored in fp32. drawn: draws per label"""
    how: Literal["top", "drawn"] = "top"
    """top: the most likely classes, the rest is one class; drawn: classes drawn from the teacher with count / k, whose
    gradient is unbiased (arXiv 2503.16870)"""
    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    """divisor of the logits; that of the student's loss must be the same"""
    seed: Annotated[int, Field(ge=0)] = 0
    """seed of the draws"""
    head: str | None = None
    """head of the teacher; default: the only one that scores these labels"""
    processes: Annotated[int, Field(ge=1)] | None = None
    """processes that share the shards, with one thread each; default: one per CPU core, or 1 on a GPU"""


class _Worker:
    """What one process needs to write any shard of the column set."""

    def __init__(self, run: Path, options: TeachOptions, stored: StoredScores) -> None:
        torch.set_num_threads(1)  # sums of several threads would depend on their number
        self.shards = open_shards(options.data.shards)
        self.output = Output(options.output)
        self.writer = _writer_of(self.shards, stored)
        self.scores = TeacherScores(open_teacher(run, None, self.shards, "RUN"), self.shards, stored, _device())

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


def teach(run: Path, options: TeachOptions) -> Manifest:
    """Write the scores of a teacher for a set; return the manifest of the column set.

    Raises:
        ConfigurationError: the teacher cannot score this set, or the output holds something else.
        DamagedBlock: a block of the set cannot be read.
    """
    shards = open_shards(options.data.shards)
    weights = open_teacher(run, None, shards, "RUN")
    stored = plan_scores(
        weights, shards, options.head, options.k, options.how, options.temperature, options.seed
    )  # fmt: skip
    del weights  # each process opens its own
    output, writer = Output(options.output), _writer_of(shards, stored)
    plan = {"set": shards.digest, "teacher": to_plain(stored)}
    with one_at_a_time(options.output, lambda: _say(f"{options.output}: waiting for another process")):
        if (present := _finished(options.output, shards, stored)) is not None:
            return present
        _refuse_other_plan(options.output, plan)
        sweep(options.output)
        publish_json(options.output / _PLAN, plan)
        missing = [shard for shard in range(writer.shards) if not writer.is_written(output, shard)]
        for done, shard in enumerate(_write_shards(run, options, stored, missing), start=1):
            _say(f"shard {shard}: {writer.shards - len(missing) + done} of {plural(writer.shards, 'shard')}")
        parent = {"name": shards.manifest.name, "digest": shards.digest, "role": ROWS}
        manifest = writer.write_manifest(
            output, name=f"{shards.manifest.name}/teacher", kind="columns", seed=stored.seed, parents=[parent],
            tokenizer=shards.manifest.tokenizer.model_dump(), variants=shards.manifest.variants,
            config=stored.to_config(),
        )  # fmt: skip
        shutil.rmtree(options.output / "tmp")
    return manifest


def _write_shards(run: Path, options: TeachOptions, stored: StoredScores, shards: Sequence[int]) -> Iterator[int]:
    """Write shards in this process, or in several; yield the number of each that is written."""
    default = 1 if _device().type == "cuda" else len(os.sched_getaffinity(0))
    processes = min(options.processes or default, len(shards))
    if processes <= 1:
        threads = torch.get_num_threads()
        try:
            worker = _Worker(run, options, stored) if shards else None
            yield from (worker.write(shard) for shard in shards if worker is not None)
        finally:
            torch.set_num_threads(threads)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), _start_worker, (run, options, stored)) as pool:
        futures = [pool.submit(_write_shard, shard) for shard in shards]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


_WORKERS: list[_Worker] = []  # the worker of a process of the pool


def _start_worker(*arguments: Any) -> None:
    _WORKERS[:] = [_Worker(*arguments)]


def _write_shard(shard: int) -> int:
    return _WORKERS[0].write(shard)


def _writer_of(shards: ShardSet, stored: StoredScores) -> SetWriter:
    columns = score_columns(stored, shards.manifest.tokenizer.vocab_size)
    count, rows = len(shards.manifest.shards), shards.manifest.block_rows
    return SetWriter("", count, columns, rows, compression=Compression(codec="none"))


def _device() -> torch.device:
    return device_of({"LOCAL_RANK": "0", **os.environ})


def _finished(folder: Path, shards: ShardSet, stored: StoredScores) -> Manifest | None:
    """Return the manifest if the same column set is complete; refuse any other set in its folder."""
    if not (folder / "manifest.json").exists():
        return None
    manifest = open_shards(folder).manifest
    if manifest.config == stored.to_config() and [parent.digest for parent in manifest.parents] == [shards.digest]:
        shutil.rmtree(folder / "tmp", ignore_errors=True)
        return manifest
    raise ConfigurationError(f"output: {folder} holds another set, {manifest.name}: choose another folder")


def _refuse_other_plan(folder: Path, plan: dict[str, Any]) -> None:
    """Refuse to continue an interrupted command with other settings."""
    before = read_json(folder / _PLAN)
    if before is None or before == plan:
        return
    theirs, ours = ({"set": part["set"], **part["teacher"]} for part in (before, plan))
    key = next(key for key in ours if theirs.get(key) != ours[key])
    raise ConfigurationError(
        f"output: {folder} holds the start of another column set, {key} {theirs.get(key)!r} there, {ours[key]!r} here: "
        "choose another folder, or remove it"
    )


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = IntermixedArguments(__doc__)
    parser.add_argument("run", type=some_path, metavar="RUN", help="the teacher: a run, or a model folder")
    add_settings(parser, TeachOptions)

    def action(parsed: argparse.Namespace) -> None:
        options = settings_of(TeachOptions, parsed.overrides)
        manifest = teach(parsed.run, options)
        totals = manifest.totals
        per_row = totals.bytes / max(1, totals.samples)
        print(
            f"{options.output}: {plural(totals.samples, 'row')} in {plural(totals.blocks, 'block')} of "
            f"{plural(totals.shards, 'shard')}, {per_row:,.0f} bytes a row"
        )

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
