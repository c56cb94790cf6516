"""Complete a configuration, once: rules fill in what it leaves open, for a start and a dry run.

A rule reads the configuration, the facts of this start, and what the run has chosen before. Nothing
rewrites what comes out, and config.yaml says what each filled key follows from.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

import torch

from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.model.checkpoints.published_forms import with_published_heads
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.shards import Manifest
from clozeline.train.checkpoint.stored_checkpoint import steps_in
from clozeline.train.checkpoint.trained_model import read_config
from clozeline.train.configuration.config import TrainConfig, check_world, passes_of
from clozeline.train.configuration.data import DataConfig
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

NodeT = TypeVar("NodeT")
CPU_VALUES: Final[dict[str, Any]] = {"precision": "fp32", "compile": False, "deterministic": True}
_GPU_VALUES: Final[dict[str, Any]] = {"precision": "bf16", "compile": True, "deterministic": False}
_CAPABILITIES: Final[dict[str, tuple[int, int]]] = {
    "precision": (8, 0),
    "compile": (7, 0),
    "deterministic": (0, 0),
}
"""Least compute capability of a GPU that multiplies in bf16, and for which torch.compile has a
backend."""


class Earlier(NamedTuple):
    """What was chosen before this start; each config.yaml is read once."""

    config: TrainConfig | None = None
    """the run that is resumed; None for a new run"""
    continued: TrainConfig | None = None
    """the run whose weights are continued: for a new branch, its trunk"""


@dataclass(frozen=True)
class Start:
    """A configuration with all that was left open, and what that follows from."""

    given: TrainConfig
    """the configuration of the user, or of the branch that it asks for"""
    config: TrainConfig
    earlier: Earlier
    world_size: int
    device: torch.device
    datasets: Any = None
    """the open `Datasets`; None: before they are opened, with the rules that need none"""
    sources: Mapping[str, str] = field(default_factory=dict)
    """what each filled key follows from"""

    @property
    def untrained_heads(self) -> list[str]:
        """Heads of the model in `init_from` that no training set serves."""
        return sorted(self.given.model.heads.keys() - self.config.model.heads)


@dataclass(frozen=True)
class Rule:
    """How a key is filled in."""

    source: str
    """what its value follows from; config.yaml and the page of all rules have it"""
    choose: Callable[[Start], Any]
    """return the value; without `kept` it is asked at each start, and may be what is there"""
    kept: Literal["", "config", "continued"] = ""
    """whose value is kept, as `Earlier` names it; the key is open if it is `auto` or null"""
    path: str = ""
    """attributes that lead to the value, or to what has several of them; empty: the key"""
    opens: str = "`auto`"
    """what leaves the key open"""
    needs_sets: bool = False


def check_start(config: TrainConfig, world_size: int, device: torch.device) -> Start:
    """Complete a configuration, open its data sets, and check that they fit model and ranks.

    The files of the shards are checked here for a single process; several ranks call
    `Datasets.check_files` together.

    Raises:
        ConfigurationError: something does not fit, or a key finds no value.
    """
    # what needs no data
    config, earlier = resolve_branch(config)
    check_world(config, world_size)
    start = fill_in(Start(config, config, earlier, world_size, device))
    model = start.config.model
    check_tracker(start.config.log.tracker)
    for name, head in model.heads.items():
        for added in head.parts():
            added.check_run(f"model.heads.{name}", start.config)

    # what the data sets decide
    datasets = open_datasets(start.config, check_files=world_size == 1)
    if (stop := start.config.early_stop) is not None:
        check_metric(stop, datasets.heldout, model.heads, model.layers)
    start = fill_in(replace(start, datasets=datasets))
    refuse_further_classes(list(_manifests(datasets)), start.config.model)
    return start


def resolve_branch(config: TrainConfig) -> tuple[TrainConfig, Earlier]:
    """Return the configuration, of a branch if `schedule.decay_from` asks for one, and the earlier.

    A branch at step N of the run RUN, whose schedule has no such decay, is trained in
    `RUN-decay-N`. Its schedule ends at `steps`, unless `schedule.steps` differs from the run's.
    """
    options = config.schedule.options
    own = _read_run(config.output)
    trunk = None
    if own is not None and options.branch_step not in (None, own.schedule.options.branch_step):
        trunk = own
        if options.steps == own.schedule.options.steps:
            config = with_key(config, "schedule.options.steps", None)
        output = config.output.with_name(f"{config.output.name}-decay-{options.branch_step}")
        config = replace(config, output=output, branch_from=config.output)
        own = _read_run(output)
    elif own is None and config.branch_from is not None:
        trunk = read_config(config.branch_from)
    return config, Earlier(own, own or trunk)


def _read_run(run: Path) -> TrainConfig | None:
    """Return the configuration of a run that has checkpoints; None if there is no such run."""
    is_run = (run / "config.yaml").exists() and steps_in(run / "checkpoints")
    return read_config(run) if is_run else None


def fill_in(start: Start) -> Start:
    """Apply the rules that need the data sets if they are open, else the others.

    Raises:
        ConfigurationError: a rule finds no value; the message names its key.
    """
    for key, rule in RULES.items():
        config = start.config
        path = rule.path or key
        old = attrgetter(path)(config)
        is_auto = old in ("auto", None)
        is_given = rule.kept and not is_auto and passes_of(old) is None
        if rule.needs_sets is (start.datasets is None) or is_given:
            continue
        kept = getattr(start.earlier, rule.kept) if rule.kept and is_auto else None
        try:
            value = rule.choose(start) if kept is None else attrgetter(path)(kept)
        except ClozelineError:
            raise
        except Exception as error:  # of a head or an optimizer of others
            raise ConfigurationError(
                f"{key}: no value follows from {rule.source}: {type(error).__name__}: {error}; "
                "give it one"
            ) from error
        if value != old:
            config = with_key(config, path, value)
            start = replace(start, config=config, sources={**start.sources, key: rule.source})
    return start


def with_key(node: NodeT, path: str, value: Any) -> NodeT:
    """Return a configuration with another value of a key, given by its attributes with dots."""
    name, _, rest = path.partition(".")
    below = with_key(getattr(node, name), rest, value) if rest else value
    return replace(node, **{name: below})  # type: ignore[type-var]


def _end_phases(start: Start) -> DataConfig:
    config, earlier = start.config, start.earlier.config
    if not config.data.shares:
        return config.data
    horizon = config.schedule.options.steps or (earlier and earlier.schedule.options.steps)
    return config.data.with_ends(horizon or config.last_step)


def _fit_micro_batch(start: Start) -> int:
    """Return at most the rows that a rank reads in the smallest step."""
    data = start.config.data
    batches = [
        data.global_batch,
        *(phase.global_batch or data.global_batch for phase in data.phases),
    ]
    return min(data.micro_batch, min(batches) // start.world_size)


def _choose_for_device(key: str) -> Callable[[Start], Any]:
    """Return a rule: the fastest value that the device and the checks across keys allow."""

    def choose(start: Start) -> Any:
        device = start.device
        if device.type != "cuda" or torch.cuda.get_device_capability(device) < _CAPABILITIES[key]:
            return CPU_VALUES[key]
        try:
            return getattr(replace(start.config, **{key: _GPU_VALUES[key]}), key)
        except ValueError:  # such as no bf16 at stage 0
            return CPU_VALUES[key]

    return choose


def _keep_trained_heads(start: Start) -> ModelConfig:
    """Return the model without heads of `init_from` that no training set trains.

    None goes if `init_from` is a run, or if the configuration has another head that no set trains:
    opening the sets reports that mistake.
    """
    model = start.config.model
    source = model.init_from
    if source is None or len(model.heads) < 2 or (source.expanduser() / "config.yaml").is_file():
        return model

    phases = open_phases(start.config.data, check_files=False)
    objectives = [source.manifest.objective for phase in phases for source in phase.sources]
    served = {head for objective in objectives if objective is not None for head in objective.heads}
    kept = {name: head for name, head in model.heads.items() if model.targets[name] in served}
    heads_of_source = with_source({"init_from": str(source)}).get("heads", {})
    if not kept or not model.heads.keys() - kept <= heads_of_source.keys():
        return model
    return replace(model, heads=kept)


def _manifests(datasets: Datasets) -> Iterator[tuple[str, Manifest]]:
    """Yield a description and the manifest of the examples of each set."""
    sources = {source.key: source for phase in datasets.phases for source in phase.sources}
    for source in sources.values():
        yield f"the training set {source.shards.path}", source.manifest
    for name, shards in datasets.heldout.items():
        yield f"the held-out set {shards.path}", Input(shards, datasets.corruptions[name]).manifest


def _choose_rate(start: Start) -> float:
    config = start.config
    if not config.optimizer.type.has_rates_of_adam:
        raise ConfigurationError(
            "optimizer.learning_rate: auto is for adamw and its like; give "
            f"{config.optimizer.name} a number"
        )
    labeled = (hold_labeled_rows(phase.sources) for phase in start.datasets.phases)
    if config.model.init_from is None or not all(labeled):
        raise ConfigurationError(
            "optimizer.learning_rate: auto needs a trained model (model.init_from) and rows of a "
            "task: give a number"
        )
    return plan_learning_rate(config.model.dim)


def _choose_hidden_maps(start: Start) -> ModelConfig:
    """Return the model without `hidden: auto`; heads of an earlier start keep their maps."""
    earlier = start.earlier.config
    special = start.datasets.train.manifest.tokenizer.special_ids
    ids = {f"{name}_token_id": number for name, number in special.items()}
    return with_published_heads(
        start.config.model, ids, {} if earlier is None else earlier.model.heads
    )


RULES: Final[Mapping[str, Rule]] = {
    "data.phases": Rule(
        "the shares of the steps of the first start",
        _end_phases,
        path="data",
        opens="a phase with a `share`",
    ),
    "data.micro_batch": Rule(
        "the rows of a step and the ranks",
        _fit_micro_batch,
        opens="more rows than a rank reads in a step",
    ),
    **{
        key: Rule("the device and the other keys", _choose_for_device(key), "continued")
        for key in CPU_VALUES
    },
    "checkpoint.keep_best": Rule(
        "early_stop, since the run ends after its best step",
        lambda start: start.config.checkpoint.keep_best or start.config.early_stop is not None,
        opens="`early_stop`",
    ),
    "model.heads": Rule(
        "the sets, which have no labels for some heads of model.init_from",
        _keep_trained_heads,
        path="model",
        opens="`model.init_from`",
    ),
    "model.heads.NAME.labels": Rule(
        "the labels, range or threshold of the sets",
        lambda start: with_settings_of_sets(start.config.model, [*_manifests(start.datasets)]),
        path="model",
        opens="null",
        needs_sets=True,
    ),
    "steps": Rule(
        "the rows of the sets",
        lambda start: plan_steps(
            start.config.data, start.datasets.phases, passes_of(start.config.steps)
        ),
        "config",
        opens="`auto`, which a resumed run keeps, or epochs",
        needs_sets=True,
    ),
    "optimizer.learning_rate": Rule(
        "the width of the body",
        _choose_rate,
        "config",
        path="optimizer.options.learning_rate",
        needs_sets=True,
    ),
    "model.heads.NAME.hidden": Rule(
        "the first start, or the class of transformers for this body",
        _choose_hidden_maps,
        path="model",
        needs_sets=True,
    ),
    "model.heads.NAME.target_scale": Rule(
        "the numbers of the training rows",
        lambda start: fit_heads(start.config.model, distinct_sets(start.datasets.phases)),
        path="model",
        opens="null",
        needs_sets=True,
    ),
    "schedule.steps": Rule(
        "the steps of the first start",
        lambda start: start.config.last_step,
        "config",
        path="schedule.options.steps",
        opens="null",
        needs_sets=True,
    ),
}
"""The rules, in the order in which they are applied."""
