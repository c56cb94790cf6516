"""Checks that need the data sets but no process group, for a start and for a dry run."""

from dataclasses import replace
from typing import NamedTuple

from clozeline.model.checkpoints import build_heads_of_class
from clozeline.train.checkpoint.format import steps_in
from clozeline.train.configuration.config import TrainConfig, check_world
from clozeline.train.data.sets.datasets import Datasets, open_datasets
from clozeline.train.data.sets.passes import plan_steps
from clozeline.train.data.sets.task_answers import with_answers
from clozeline.train.data.stream.phases import distinct_sets
from clozeline.train.logs.trackers import check_tracker
from clozeline.train.optim.early_stopping import check_metric
from clozeline.train.startup.branch import resolve_branch
from clozeline.train.startup.run_directory import read_config
from clozeline.train.startup.source_heads import leave_out_heads


class CheckedStart(NamedTuple):
    """A configuration that fits its data sets."""

    config: TrainConfig
    """with the branch, the steps, the labels of its task, and the form of its head filled in"""
    datasets: Datasets
    left_out: tuple[str, ...]
    """heads of the model in `init_from` that no training set serves"""


def check_start(config: TrainConfig, world_size: int) -> CheckedStart:
    """Resolve a branch, open the data sets, and check that they fit the model and the number of ranks.

    The files of the shards are checked here for a single process; several ranks call `Datasets.check_files` together.
    """
    config = resolve_branch(config)
    check_world(config, world_size)
    check_tracker(config.log.tracker)
    config, left_out = leave_out_heads(config)
    datasets = open_datasets(config, check_files=world_size == 1)
    config = fill_in_answers(fill_in_steps(config, datasets), datasets)
    special_ids = datasets.train.manifest.tokenizer.special_ids
    model = build_heads_of_class(config.model, {f"{name}_token_id": number for name, number in special_ids.items()})
    return CheckedStart(replace(config, model=model), datasets, left_out)


def fill_in_steps(config: TrainConfig, datasets: Datasets) -> TrainConfig:
    """Return the configuration without `steps: auto`: a run that has a checkpoint keeps its number."""
    if config.steps != "auto":
        return config
    if steps_in(config.output / "checkpoints"):
        return replace(config, steps=read_config(config.output).last_step)
    return replace(config, steps=plan_steps(config.data, datasets.phases))


def fill_in_answers(config: TrainConfig, datasets: Datasets) -> TrainConfig:
    """Return the configuration with the labels of the task that the sets hold, if they hold one."""
    if config.early_stop is not None:
        check_metric(config.early_stop, datasets.heldout, config.model.heads)
    train = [(f"the training set {shards.path}", shards.manifest) for shards in distinct_sets(datasets.phases)]
    heldout = [(f"the held-out set {shards.path}", shards.manifest) for shards in datasets.heldout.values()]
    return replace(config, model=with_answers(config.model, [*train, *heldout]))
