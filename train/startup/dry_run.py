"""Check everything that a start checks and print the cost of the run; nothing is written and no rank is joined."""

import os
import sys

from clozeline.command import wrap_log
from clozeline.configuration.redaction import redact_text
from clozeline.train.checkpoint.run_weights import find_newest
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import open_stream
from clozeline.train.data.sets.passes import describe_rereading
from clozeline.train.distributed.launcher import describe_environment
from clozeline.train.distributed.process_group import device_of
from clozeline.train.logs.cost_estimate import estimate_cost, operations_per_second
from clozeline.train.logs.peak_flops import peak_of
from clozeline.train.logs.status import read_status
from clozeline.train.startup.announcements import describe_model
from clozeline.train.startup.checks import check_start
from clozeline.train.startup.run_directory import refuse_output
from clozeline.train.startup.start_or_resume import find_starting_point
from clozeline.train.startup.starting_model import build_starting_model


def dry_run(config: TrainConfig) -> int:
    """Check a configuration as a start would, and print what the run will cost; return 0."""
    # check the configuration against the output folder and the data sets
    rank, size = describe_environment()
    config, datasets, left_out = check_start(config, size)
    if size > 1:
        datasets.check_files(rank, int(os.environ["LOCAL_RANK"]))
    refuse_output(config)
    # find the checkpoint to resume from
    lines: list[str] = []
    checkpoint = find_newest(
        config.output / "checkpoints",
        lambda name, reason: lines.append(f"checkpoint {name} is passed over: {reason}"),
    )
    device = device_of(os.environ)
    point = find_starting_point(config, datasets.description, size, device, checkpoint)
    config = point.config
    # build the model and open the stream
    starting = build_starting_model(point, datasets.train)
    if config.regularizer is not None and point.checkpoint is None:
        config.regularizer.build().check_model(starting.model, starting.new)
    lines += describe_model(config, left_out, starting, datasets)
    open_stream(config.data, datasets.phases, rank, size).close()
    # estimate the cost
    if rank == 0:
        lines += [*point.lines(read_status(config.output)), *point.choices]
        measured = operations_per_second(device, config.precision)
        cost = estimate_cost(config, starting.model, datasets, size, starting.teacher)
        lines += [*cost.lines(measured), *describe_rereading(datasets.phases, cost.rows_by_set)]
        lines.append(peak_of(device, config.precision, measured).line())
        sys.stdout.write(wrap_log(redact_text("\n".join([*lines, "dry run: everything fits together", ""]))))
    return 0
