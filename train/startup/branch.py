"""Branch off a run: continue it with a learning-rate decay in another folder, and leave the run itself unchanged."""

from dataclasses import replace
from pathlib import Path

from clozeline.errors import ConfigurationError
from clozeline.registry import Chosen
from clozeline.train.checkpoint.format import Index
from clozeline.train.checkpoint.run_weights import find_checkpoint
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.startup.run_directory import read_config


def resolve_branch(config: TrainConfig) -> TrainConfig:
    """Return the configuration of a branch if `schedule.decay_from` asks for one, else the same configuration.

    A branch at step N of the run RUN, whose own schedule has no such decay, is trained in `RUN-decay-N`. Its schedule
    ends at `steps`, unless `schedule.steps` differs from the run's.
    """
    step = _decay_from(config)
    if step is None or not (config.output / "config.yaml").exists():
        return config
    run = read_config(config.output)
    if _decay_from(run) == step:
        return config
    options, horizon = config.schedule.options, config.schedule.options.steps
    if horizon == run.schedule.options.steps:
        options = replace(options, steps=None)
    schedule = Chosen(config.schedule.name, config.schedule.type, options)
    output = config.output.with_name(f"{config.output.name}-decay-{step}")
    return replace(config, output=output, branch_from=config.output, schedule=schedule)


def branch_point(config: TrainConfig) -> tuple[Path, Index] | None:
    """Return the checkpoint at which a new branch starts; None without a branch."""
    if config.branch_from is None:
        return None
    step = _decay_from(config)
    if step is None:
        raise ConfigurationError(f"branch_from: {config.branch_from} needs schedule.decay_from, the step of the branch")
    return find_checkpoint(config.branch_from, step)


def _decay_from(config: TrainConfig) -> int | None:
    step: int | None = getattr(config.schedule.options, "decay_from", None)
    return step
