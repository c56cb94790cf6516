"""Announce the start of a run: its cost or checkpoint, and the state of its data."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from clozeline.command import wrap_log
from clozeline.configuration.config import to_data
from clozeline.configuration.redaction import redact_text
from clozeline.errors import ClozelineError
from clozeline.model.checkpoints.published_forms import describe_export
from clozeline.model.checkpoints.sources import NewModel
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.parameters.sharding import SHAPES
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer
from clozeline.train.checkpoint.stored_checkpoint import find_newest
from clozeline.train.checkpoint.trained_model import token_ids
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import Datasets, open_stream
from clozeline.train.data.sets.model_fit import unread_lines
from clozeline.train.data.sets.recorded_sets import describe_rereading
from clozeline.train.data.stream.phases import distinct_sets
from clozeline.train.distributed.launcher import describe_environment
from clozeline.train.distributed.process_group import device_of
from clozeline.train.engine import Engine
from clozeline.train.evaluate import unit_of
from clozeline.train.logs.cost_estimate import (
    CostEstimate,
    estimate_cost,
    operations_per_second,
)
from clozeline.train.logs.display import Display, describe_event
from clozeline.train.logs.journal import Journal
from clozeline.train.logs.plan import describe_cost, describe_plan
from clozeline.train.startup.fill_in import check_start
from clozeline.train.startup.run_directory import refuse_output
from clozeline.train.startup.start_or_resume import StartingPoint, find_starting_point
from clozeline.train.startup.starting_model import StartingModel, build_starting_model


def describe_start(
    point: StartingPoint,
    starting: StartingModel,
    cost: CostEstimate,
    operations: float,
    plan: Mapping[str, str],
) -> list[str]:
    """Return the lines on a start: where it begins, its model, its cost, and what is not read.

    `operations`: FLOPs per second of one rank; `plan`: what the run will do, by topic.
    """
    model = point.config.model
    phases = point.start.datasets.phases
    heads = ", ".join(point.start.untrained_heads)
    lines = [
        f"not trained: {heads} of {model.init_from}; no training set has its labels" * bool(heads),
        *starting.lines,
        *unread_lines([shards.manifest for shards in distinct_sets(phases)], model),
        point.resume_note(),
        point.schedule_note(),
        *point.choices,
        *describe_cost(cost, operations, plan),
        *describe_rereading(phases, cost.rows_by_set),
    ]
    return [*filter(None, lines)]


def new_model(model: ModelConfig, output: Path, datasets: Datasets) -> NewModel:
    """Return what an export needs to know of a model that a run starts to train."""
    first = datasets.phases[0].sources[0]
    manifest = first.manifest

    assert manifest.objective is not None, "a start refuses a set without an objective"

    try:
        tokenizer = find_tokenizer(first.shards.path, manifest.tokenizer.fingerprint)
    except ClozelineError:  # the sets were copied without it
        tokenizer = None

    # a resumed run has a copy of what its source was published with: it may no longer exist
    source = model.init_from
    folders = (output, *([] if source is None else [source.expanduser()]))
    return NewModel(
        model,
        manifest.tokenizer.vocab_size,
        token_ids(manifest.tokenizer, manifest.objective),
        manifest.max_length,
        tokenizer,
        folders,
    )


def announce_start(
    point: StartingPoint,
    lines: Sequence[str],
    engine: Engine,
    display: Display,
    journal: Journal,
    plan: Mapping[str, str],
) -> None:
    """Print the lines of a start, for a resumed run also whether it is exact; write the event.

    Args:
        point: where the run starts.
        lines: what there is to say of the start.
        engine: its hooks have charts that the report draws, its heads the unit of the losses.
        display: prints.
        journal: takes the event.
        plan: what the run will do, by topic, which the report repeats.
    """
    now = point.state
    saved = point.saved
    recorded = {
        "shape": now.shape,
        "charts": [to_data(chart) for hook in engine.hooks for chart in hook.charts],
        "unit": unit_of(engine.heads.values()),
        "plan": plan,
    }
    if saved is None:
        fields = {"versions": now.versions, **recorded}
        journal.event("start", steps=point.config.steps, **fields)
    else:
        # a resumed run: whether results are bit-identical
        exact = (
            saved.shape == now.shape
            and saved.versions == now.versions
            and point.config.deterministic is not False
        )
        fields = {"was": saved.shape, **recorded}
        journal.event("resume", step=saved.step, checkpoint=point.name, exact=exact, **fields)
        if not exact:
            changed = "deterministic is false"
            if saved.shape != now.shape or saved.versions != now.versions:
                changed = f"the run was {saved.shape} and is {now.shape} now"
            lines = [*lines, f"{changed}: the state is the same, but rounding will differ"]

    for line in lines:
        display.say(line)


def dry_run(config: TrainConfig) -> int:
    """Check a configuration as a start would, and print what the run will cost; return 0."""
    # check the configuration against the output folder and the data sets
    rank, size = describe_environment()
    device = device_of(os.environ)
    start = check_start(config, size, device)
    config, datasets = start.config, start.datasets
    if size > 1:
        datasets.check_files(rank, int(os.environ["LOCAL_RANK"]))
    refuse_output(config.output, config.resume)

    # find the checkpoint to resume from
    lines: list[str] = []
    checkpoint = find_newest(
        config.output / "checkpoints",
        lambda name, reason: lines.append(
            describe_event({"event": "checkpoint_refused", "checkpoint": name, "reason": reason})
        ),
    )

    point = find_starting_point(start, checkpoint)

    # build the model and open the stream
    starting = build_starting_model(point, datasets.train, SHAPES)
    if config.regularizer is not None and point.checkpoint is None:
        config.regularizer.build().check_model(starting.model, starting.new)
    open_stream(config.data, datasets.phases, rank, size).close()

    # ask the export, and estimate the cost
    if rank == 0:
        lines += describe_export(new_model(config.model, config.output, datasets))
        measured = operations_per_second(device, config.precision)
        cost = estimate_cost(config, starting.model, datasets, size)
        plan = describe_plan(cost)
        lines += describe_start(point, starting, cost, measured, plan)
        lines += ["dry run: everything fits together", ""]
        sys.stdout.write(wrap_log(redact_text("\n".join(lines))))

    return 0
