"""Checks that need the data sets but no process group, for a start and for a dry run."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints.published_forms import with_published_heads
from clozeline.model.configuration.head import ClassifierOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.shards import Manifest
from clozeline.registry import Component
from clozeline.train.checkpoint.stored_checkpoint import steps_in
from clozeline.train.checkpoint.trained_model import read_config
from clozeline.train.configuration.config import TrainConfig, check_world
from clozeline.train.configuration.model_source import with_source
from clozeline.train.data.sets.datasets import Datasets, open_datasets
from clozeline.train.data.sets.finetuning import hold_labeled_rows, plan_learning_rate
from clozeline.train.data.sets.model_fit import (
    fit_heads,
    refuse_further_classes,
    with_settings_of_sets,
)
from clozeline.train.data.sets.recorded_sets import plan_steps
from clozeline.train.data.stream.phases import Input, distinct_sets, open_phases
from clozeline.train.logs.trackers import check_tracker
from clozeline.train.optim.early_stopping import check_metric


class CheckedStart(NamedTuple):
    """A configuration that fits its data sets."""

    config: TrainConfig
    """the configuration with branch, steps, learning rate, labels and heads filled in"""
    datasets: Datasets
    untrained_heads: tuple[str, ...]
    """heads of the model in `init_from` that no training set serves"""


def check_start(config: TrainConfig, world_size: int) -> CheckedStart:
    """Resolve a branch, open the data sets, and check that they fit the model and the ranks.

    The files of the shards are checked here for a single process; several ranks call
    `Datasets.check_files` together.
    """
    # what needs no data
    config = fill_in_phases(resolve_branch(config))
    check_world(config, world_size)
    config = fit_micro_batch(config, world_size)
    check_tracker(config.log.tracker)
    for name, head in config.model.heads.items():
        for added in head.parts():
            added.check_run(f"model.heads.{name}", config)
    config, untrained_heads = drop_untrained_heads(config)

    # what the data sets decide
    datasets = open_datasets(config, check_files=world_size == 1)
    config = fill_in_learning_rate(fill_in_steps(config, datasets), datasets)
    config = fill_in_labels(config, datasets)
    model = _choose_hidden_maps(config, datasets.train.manifest.tokenizer.special_ids)
    refuse_further_classes(list(_manifests(datasets)), model)
    model = fit_heads(model, distinct_sets(datasets.phases))
    return CheckedStart(replace(config, model=model), datasets, untrained_heads)


def _choose_hidden_maps(config: TrainConfig, special_ids: Mapping[str, int]) -> ModelConfig:
    """Return the model without `hidden: auto`; a resumed run keeps its maps."""
    heads = config.model.heads.values()
    asked = any(isinstance(head, ClassifierOptions) and head.hidden == "auto" for head in heads)
    started = read_start(config) if asked else None
    saved = {} if started is None else started.model.heads
    ids = {f"{name}_token_id": number for name, number in special_ids.items()}
    return with_published_heads(config.model, ids, saved)


def fit_micro_batch(config: TrainConfig, world_size: int) -> TrainConfig:
    """Return the configuration with a micro-batch of at most the rows of a rank per step."""
    data = config.data
    batches = [
        data.global_batch,
        *(phase.global_batch for phase in data.phases if phase.global_batch is not None),
    ]
    rows = min(batches) // world_size
    return (
        config
        if data.micro_batch <= rows
        else replace(config, data=replace(data, micro_batch=rows))
    )


def read_start(config: TrainConfig) -> TrainConfig | None:
    """Return the configuration of the run that is resumed; None for a new run."""
    resumed = steps_in(config.output / "checkpoints")
    return read_config(config.output) if resumed else None


def fill_in_steps(config: TrainConfig, datasets: Datasets) -> TrainConfig:
    """Return the configuration without `steps: auto`; a resumed run keeps its number of steps."""
    if config.steps != "auto":
        return config
    started = read_start(config)
    steps = plan_steps(config.data, datasets.phases) if started is None else started.last_step
    return replace(config, steps=steps)


def fill_in_learning_rate(config: TrainConfig, datasets: Datasets) -> TrainConfig:
    """Return the configuration without `optimizer.learning_rate: auto`; a resumed run keeps it."""
    optimizer_component = config.optimizer
    if optimizer_component.options.learning_rate != "auto":
        return config
    if (started := read_start(config)) is not None:
        rate = started.optimizer.options.learning_rate
    elif not optimizer_component.type.has_rates_of_adam:
        raise ConfigurationError(
            f"optimizer.learning_rate: auto is for adamw and its like; give "
            f"{optimizer_component.name} a number"
        )
    elif config.model.init_from is None or not all(
        hold_labeled_rows(phase.sources) for phase in datasets.phases
    ):
        raise ConfigurationError(
            "optimizer.learning_rate: auto needs a trained model (model.init_from) and rows of a "
            "task: give a number"
        )
    else:
        rate = plan_learning_rate(config.model.dim)

    options = replace(optimizer_component.options, learning_rate=rate)
    return replace(
        config, optimizer=Component(optimizer_component.name, optimizer_component.type, options)
    )


def fill_in_phases(config: TrainConfig) -> TrainConfig:
    """Return the configuration with ends for the phases that take a share of the steps."""
    if not config.data.shares:
        return config
    horizon = config.schedule.options.steps
    if horizon is None and (started := read_start(config)) is not None:
        horizon = started.schedule.options.steps
    return replace(config, data=config.data.with_ends(horizon or config.last_step))


def fill_in_labels(config: TrainConfig, datasets: Datasets) -> TrainConfig:
    """Return the configuration with the labels of its sets, if they have some."""
    if config.early_stop is not None:
        check_metric(config.early_stop, datasets.heldout, config.model.heads, config.model.layers)
    return replace(config, model=with_settings_of_sets(config.model, list(_manifests(datasets))))


def _manifests(datasets: Datasets) -> Iterator[tuple[str, Manifest]]:
    """Yield a description and the manifest of the examples of each set."""
    sources = {source.key: source for phase in datasets.phases for source in phase.sources}
    for source in sources.values():
        yield f"the training set {source.shards.path}", source.manifest
    for name, shards in datasets.heldout.items():
        yield f"the held-out set {shards.path}", Input(shards, datasets.corruptions[name]).manifest


def resolve_branch(config: TrainConfig) -> TrainConfig:
    """Return the configuration of a branch if `schedule.decay_from` asks for one.

    A branch at step N of the run RUN, whose schedule has no such decay, is trained in
    `RUN-decay-N`. Its schedule ends at `steps`, unless `schedule.steps` differs from the run's.
    """
    step = config.schedule.options.branch_step
    if step is None or not (config.output / "config.yaml").exists():
        return config
    run = read_config(config.output)
    if run.schedule.options.branch_step == step:
        return config
    options = config.schedule.options
    horizon = config.schedule.options.steps
    if horizon == run.schedule.options.steps:
        options = replace(options, steps=None)
    schedule = Component(config.schedule.name, config.schedule.type, options)
    output = config.output.with_name(f"{config.output.name}-decay-{step}")
    return replace(config, output=output, branch_from=config.output, schedule=schedule)


def drop_untrained_heads(config: TrainConfig) -> tuple[TrainConfig, tuple[str, ...]]:
    """Drop the heads of the model in `init_from` that no training set trains.

    Nothing is dropped if `init_from` is a run, or if the configuration has another head that no set
    trains: opening the sets reports that mistake.

    Returns:
        the configuration, and the names of the dropped heads.
    """
    model = config.model
    source = config.model.init_from
    if source is None or len(model.heads) < 2 or (source.expanduser() / "config.yaml").is_file():
        return config, ()

    # heads that no objective of the sets serves
    phases = open_phases(config.data, check_files=False)
    objectives = [source.manifest.objective for phase in phases for source in phase.sources]
    served = {head for objective in objectives if objective is not None for head in objective.heads}
    unserved = tuple(sorted(name for name, target in model.targets.items() if target not in served))
    if not unserved or len(unserved) == len(model.heads):
        return config, ()

    # all of them must come from the source
    heads_of_source = with_source({"init_from": str(source)}).get("heads", {})
    if not set(unserved) <= heads_of_source.keys():
        return config, ()
    kept = {name: head for name, head in model.heads.items() if name not in unserved}
    return replace(config, model=replace(model, heads=kept)), unserved
