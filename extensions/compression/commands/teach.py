"""Store a teacher's scores with its data.

    clozeline teach mine/run data.shards=mine/data/corrupt/mlm output=taught k=16 [how=top|drawn]

RUN is a run or a model folder with the tokenizer of the set. The output is a column set: for each
label of the set, k classes and their weights, in the same rows and blocks. A student reads both,
without a teacher in memory: `data.shards={path: SET, columns: [SET2]}`.

The bytes do not depend on the number of processes. Blocks that are scored stay: after a kill, the
same command continues.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, plural
from clozeline.files import publish_json, read_json, require_empty, sweep
from clozeline.output_lock import hold_output
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.shards import Manifest, open_shards
from clozeline.pipeline.shards.column_set import ROWS
from clozeline.tools.command import Natural, OutputPath, Positive, UserPath, run_as_script, run_tool
from clozeline.tools.options import RunArgument

_PLAN_FILE = "tmp/plan.json"
"""File, in the output folder, with the plan that an interrupted command continues."""


@config_class
class TaughtSet:
    """The set whose labels are scored."""

    shards: UserPath
    """manifest.json of a set of examples, or its folder"""


@config_class
class TeachOptions:
    """The set, the form of the scores, and the output."""

    data: TaughtSet
    output: OutputPath
    """folder of the column set"""
    k: Positive = 16
    """top: the most likely classes, kept for each label; an entire vocabulary is stored in fp32.
    drawn: draws per label"""
    how: Literal["top", "drawn"] = "top"
    """top: the most likely classes, the rest is one class; drawn: classes drawn from the teacher
    with count / k, whose gradient is unbiased (arXiv 2503.16870)"""
    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    """divisor of the logits; that of the student's loss must be the same"""
    seed: Natural = 0
    """seed of the draws"""
    head: str | None = None
    """head of the teacher; default: the only one that scores these labels"""
    processes: Positive | None = None
    """processes that share the blocks, with one thread each; default: one per CPU core, or 1 on a
    GPU"""


@config_class
class TeachCommand(TeachOptions, RunArgument):
    """The teacher, the set, the form of the scores, and the output."""


def teach(run: Path, options: TeachOptions) -> Manifest:
    """Write the scores of a teacher for a set; return the manifest of the column set.

    Raises:
        ConfigurationError: the teacher cannot score this set, or the output holds something else.
        DamagedBlock: a block of the set cannot be read.
    """
    from clozeline.extensions.compression.distillation.score_shards import (
        ColumnTask,
        write_shards,
        writer_of,
    )
    from clozeline.extensions.compression.distillation.teacher_model import open_teacher
    from clozeline.extensions.compression.distillation.teacher_scores import plan_scores

    shards = open_shards(options.data.shards)
    teacher = open_teacher(run, None, shards, "RUN")
    stored = plan_scores(
        teacher, shards, options.head, options.k, options.how, options.temperature, options.seed
    )
    del teacher  # each process opens a copy
    plan = {"set": shards.digest, **stored.to_config()}

    if not any((options.output / name).exists() for name in (_PLAN_FILE, "manifest.json")):
        require_empty(options.output)
    with hold_output(options.output):
        present = (
            open_shards(options.output).manifest
            if (options.output / "manifest.json").exists()
            else None
        )

        _refuse_other_plan(options.output, present, plan)
        if present is not None:
            shutil.rmtree(options.output / "tmp", ignore_errors=True)
            return present

        sweep(options.output)
        publish_json(options.output / _PLAN_FILE, plan)

        for shard in write_shards(
            ColumnTask(run, options.data.shards, options.output, stored), shards, options.processes
        ):
            print(
                f"shard {shard + 1} of {plural(len(shards.manifest.shards), 'shard')}",
                file=sys.stderr,
            )

        parent = {"name": shards.manifest.name, "digest": shards.digest, "role": ROWS}
        manifest = writer_of(shards, stored).write_manifest(
            Output(options.output),
            name=f"{shards.manifest.name}/teacher",
            kind="columns",
            seed=stored.seed,
            parents=[parent],
            tokenizer=shards.manifest.tokenizer.model_dump(),
            variants=shards.manifest.variants,
            config=stored.to_config(),
        )

        shutil.rmtree(options.output / "tmp")

    return manifest


def _refuse_other_plan(folder: Path, present: Manifest | None, plan: dict[str, Any]) -> None:
    """Refuse a folder with another set, or with the start of a column set with other settings."""
    if present is None:
        before = read_json(folder / _PLAN_FILE)
        what = "the start of another column set"
    else:
        parent = next((parent.digest for parent in present.parents), None)
        before = {"set": parent, **present.config}
        what = f"another set, {present.name}"

    if before is None or before == plan:
        return
    theirs, ours = ({"set": part["set"], **part.get("teacher", {})} for part in (before, plan))
    key = next(key for key in ours if theirs.get(key) != ours[key])
    raise ConfigurationError(
        f"output: {folder} holds {what}, {key} {theirs.get(key)!r} there, {ours[key]!r} here: "
        "choose another folder"
    )


def _teach(options: TeachCommand) -> None:
    totals = teach(options.run, options).totals
    per_row = totals.bytes / max(1, totals.samples)
    counts = f"{plural(totals.samples, 'row')} in {plural(totals.blocks, 'block')}"
    print(
        f"{options.output}: {counts} of {plural(totals.shards, 'shard')}, {per_row:,.0f} bytes per "
        "row"
    )


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, TeachCommand, _teach)


if __name__ == "__main__":
    run_as_script(main)
