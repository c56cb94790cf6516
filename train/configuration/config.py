"""Configuration of the trainer: keys with defaults and ranges, and checks across keys.

`frozen` returns the keys that a resumed run must share with its checkpoint.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny
from pydantic_core import PydanticCustomError

from clozeline import plugins
from clozeline.configuration.added_keys import Extensible, add_keys
from clozeline.configuration.config import (
    MayChange,
    Natural,
    Positive,
    Seconds,
    config_class,
    fixed_keys,
    flatten,
    to_data,
)
from clozeline.configuration.described_keys import Common
from clozeline.configuration.paths import LocalPath, OutputPath, as_url, local_path
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.capabilities import check_parts
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.registry import component_types
from clozeline.train.configuration.checkpoint import CheckpointConfig
from clozeline.train.configuration.data import DataConfig
from clozeline.train.configuration.logs import DivergenceConfig, LogConfig, ProfileConfig
from clozeline.train.configuration.model_source import with_source
from clozeline.train.configuration.parts import parts_of
from clozeline.train.configuration.zero import ZeroConfig
from clozeline.train.optim.early_stopping import EarlyStopConfig
from clozeline.train.optim.schedules import ScheduleOptions
from clozeline.train.registries import (
    OPTIMIZERS,
    SCHEDULES,
    TRAINING_KEYS,
    HookComponent,
    OptimizerComponent,
    RegularizerComponent,
    ScheduleComponent,
)


@config_class
class EvaluateConfig:
    """Evaluation on the held-out sets."""

    every: Annotated[Positive | None, Common()] = None
    """steps between evaluations; the end of the run always has one; null: only the end"""
    max_rows: Natural | None = None
    """limit of rows read from each held-out set, rounded up to full batches of data.global_batch;
    the rows are the same every time; null: all; 0: no evaluation"""


def passes_of(steps: object) -> float | None:
    """Return the passes that `steps` asks for; None: it is a number, or auto."""
    matched = re.fullmatch(r"(\d+(?:\.\d+)?) epochs?", str(steps))
    return float(matched[1]) if matched else None


def _check_epochs(text: str) -> str:
    if not passes_of(text):
        raise PydanticCustomError("epochs", "Input should be passes, such as '3 epochs'")
    return text


Epochs: TypeAlias = Annotated[str, AfterValidator(_check_epochs)]


def _words(value: object) -> object:
    words = [value] if isinstance(value, str) else value
    return tuple(words) if isinstance(words, list) else words


@config_class
@add_keys(TRAINING_KEYS.added_keys())
class TrainConfig(Extensible):
    """A training run."""

    PART: ClassVar = "train"

    model: Annotated[SerializeAsAny[ModelConfig], BeforeValidator(with_source), Common()]
    """the network and its heads; `{init_from: DIR}` alone is the model in DIR, `{size: NAME}` one
    of configs/models"""
    data: DataConfig
    """sets, order and batches"""
    init_parts: MayChange[Annotated[tuple[str, ...], BeforeValidator(_words)]] = ()
    """parameters to initialize from model.init_from: body, embeddings, or regular expressions for
    full names; none: only its configuration; default: all that it has"""
    freeze: Annotated[tuple[str, ...], BeforeValidator(_words), Common()] = ()
    """frozen parameters, without dropout and outside the optimizer: body (all but the heads),
    embeddings, or regular expressions for full names: [embeddings, 'family.stack.layers.[01].*']"""
    optimizer: Annotated[OptimizerComponent, Common()] = Field(
        default_factory=OPTIMIZERS.default("adamw")
    )
    """an optimizer and its options: {name: adamw, learning_rate: 1e-3, weight_decay: 0.01, ...}"""
    schedule: Annotated[ScheduleComponent, Common()] = Field(
        default_factory=SCHEDULES.default("linear")
    )
    """a learning-rate schedule and its options: {name: linear, warmup: 100, steps: 10000, ...}"""
    regularizer: RegularizerComponent | None = None
    """a pull to earlier weights and its options: {name: l2_sp, alpha: 0.1}; null: none. Needs
    model.init_from"""
    hooks: tuple[HookComponent, ...] = ()
    """things that follow the training, each once: [{name: average, decay: 0.999}, {name:
    unfreezing, every: 100}, layer_statistics]"""
    zero: MayChange[ZeroConfig] = ZeroConfig()
    """partitioning of state over ranks"""
    precision: Annotated[Literal["auto", "fp32", "bf16"], Common()] = "auto"
    """type of weights and gradients; bf16 keeps fp32 masters in the optimizer and needs zero.stage
    ≥ 1. auto: bf16 on a GPU that has it, else fp32; fp32 matrices are multiplied in TF32 on a GPU.
    A run keeps what its first start chose"""
    activation_checkpointing: MayChange[bool] = False
    """recompute each layer in the backward pass: less memory, same bits"""
    compile: Annotated[MayChange[bool | Literal["auto"]], Common()] = "auto"
    """compile each layer with torch.compile, and with data.label_capacity the heads; not with
    zero.stage 3. Losses may differ in their last bits. auto: on a GPU, if the other keys allow it;
    a failure is told, and the run goes on without"""
    deterministic: MayChange[bool | Literal["auto"]] = "auto"
    """bit-identical results; false allows faster GPU kernels, and a resumed run is not bit-exact.
    auto: not on a GPU"""
    gradient_clipping: Annotated[float, Field(ge=0.0), Common()] = 1.0
    """maximum gradient norm over all parameters; 0: no clipping, as in Composer and in a PyTorch
    loop unless they ask for it"""
    seed: Annotated[Natural, Common()] = 0
    """seed of initial weights and dropout"""
    steps: Annotated[MayChange[Positive | Literal["auto"] | Epochs], Common()] = 1000
    """step at which this run stops; may grow from start to start. 3 epochs: passes over the sets,
    each sample once whatever its stored variants. auto: 4 million tokens of the
    sets (2 million with an encoder-decoder), but at least one pass and 100 steps, and at most 16
    passes with data.corrupt, 4 over rows that never change, and 2 over each stored variant; for
    sets of labeled rows, which an extension makes, 16,000 rows, but 3 to 16 passes. The first start
    decides, and later ones keep its number"""
    output: Annotated[MayChange[OutputPath], Common()]
    """run directory"""
    branch_from: MayChange[LocalPath | None] = None
    """run from whose checkpoint at step schedule.decay_from this run starts; a start with that key
    sets it: you need not; null: none"""
    resume: Annotated[MayChange[Literal["auto", "never", "must"]], Common()] = "auto"
    """auto: resume from the newest valid checkpoint, else start; must: fail without one; never:
    start from step 0, in an empty directory only"""
    evaluate: MayChange[EvaluateConfig] = EvaluateConfig()
    """held-out evaluation"""
    early_stop: Annotated[MayChange[EarlyStopConfig | None], Common()] = None
    """end when a held-out metric no longer improves: {metric: heldout/loss, patience: 3}, or
    reaches a `target`; every evaluated step is saved then, and the best is kept; null: train for
    all steps"""
    checkpoint: MayChange[CheckpointConfig] = CheckpointConfig()
    """saving"""
    log: MayChange[LogConfig] = LogConfig()
    """metrics"""
    profile: MayChange[ProfileConfig | None] = None
    """steps whose operations are timed, as a trace: {from: 20, steps: 5}; null: none"""
    watchdog_s: MayChange[Seconds] = 1800.0
    """seconds without progress after which a process dumps its stacks and ends; 0: never"""
    collective_timeout_s: MayChange[Annotated[Seconds, Field(gt=0.0)]] = 600.0
    """seconds after which a collective of NCCL or gloo fails for want of a rank"""
    max_consecutive_skips: MayChange[Positive] = 20
    """steps in a row with a gradient that is not finite, after which the run ends as diverged"""
    on_divergence: MayChange[DivergenceConfig | None] = None
    """return to an earlier checkpoint instead, and skip the rows that led there: {rollback: 1,
    skip_rows: true}; null: end the run"""

    def __post_init__(self) -> None:
        if self.data.global_batch % self.data.lane_count:
            raise ValueError(
                f"data.lanes: {self.data.lane_count} lanes do not divide data.global_batch "
                f"{self.data.global_batch}; remove the key: a divisor is then chosen"
            )
        if self.data.phases and isinstance(self.steps, str):
            raise ValueError(
                f"steps: {self.steps} counts passes over data.shards; with data.phases, set a "
                "number"
            )
        if self.profile is not None and isinstance(self.steps, int):
            self.profile.check(self.steps)

        if self.branch_from is not None and self.schedule.options.branch_step is None:
            raise ValueError(
                f"branch_from: {self.branch_from} needs schedule.decay_from, the step of the branch"
            )

        for hook in self.all_hooks:
            hook.type.check(self)
        for key in self.parts():
            key.check(self)
        check_parts(parts_of(self))

        if self.precision == "bf16" and self.zero.stage == 1 and self.zero.offload != "none":
            raise ValueError(
                "zero.offload: stage 1 in bf16 would accumulate gradients differently: set "
                "zero.stage=2"
            )
        if self.on_divergence is not None:
            self._check_rollback(self.on_divergence)

    def _check_rollback(self, rollback: DivergenceConfig) -> None:
        """Check that a checkpoint from before a divergence exists when it is noticed."""
        if self.checkpoint.every is None:
            raise ValueError(
                "on_divergence: returns to a checkpoint: expected checkpoint.every, got null"
            )

        if (kept := self.checkpoint.keep_last) < (needed := rollback.rollback + 1):
            raise ValueError(
                f"checkpoint.keep_last: on_divergence needs {needed} or more (rollback "
                f"{rollback.rollback}, and the one whose weights may be the cause), got {kept}"
            )

    @property
    def all_hooks(self) -> tuple[HookComponent, ...]:
        """The hooks that keys of extensions add, and those of the key `hooks`."""
        return (*(hook for part in self.parts() for hook in part.hooks()), *self.hooks)

    @property
    def last_step(self) -> int:
        """`steps` as a number; a start replaces `auto` and epochs."""
        assert isinstance(self.steps, int), "check_start has resolved it"
        return self.steps

    @property
    def frozen_parameters(self) -> tuple[str, ...]:
        """`freeze`, and what a key of a head keeps as it is."""
        keys = (key for head in self.model.heads.values() for key in head.parts())
        return (*self.freeze, *(pattern for key in keys for pattern in key.frozen))


def check_world(config: TrainConfig, world_size: int) -> int:
    """Return the micro-batches per rank and step.

    Raises:
        ConfigurationError: the world size does not divide the lanes, or micro-batches do not divide
            the rows of a rank, or compared rows do not divide what a rank reads at once.
    """
    data = config.data
    # ranks must divide the lanes
    if data.lane_count % world_size:
        fits = [size for size in range(1, data.lane_count + 1) if data.lane_count % size == 0]
        also = (
            f"; data.global_batch must also be a multiple of {world_size}"
            if data.global_batch % world_size
            else ""
        )
        raise ConfigurationError(
            f"data.lanes: {data.lane_count} lanes cannot be shared by {world_size} ranks; start "
            f"with {', '.join(map(str, fits))} ranks, or set data.lanes to a multiple of "
            f"{world_size} that divides data.global_batch {data.global_batch} (the order of "
            f"the data depends on the lanes){also}"
        )

    # micro-batches must divide the rows of a rank
    share = data.global_batch // world_size
    if data.global_batch % world_size or share % min(data.micro_batch, share):
        fits = [size for size in range(1, share + 1) if share % size == 0]
        raise ConfigurationError(
            f"data.micro_batch: {data.global_batch} rows over {world_size} ranks are {share} per "
            f"rank, which micro-batches of {data.micro_batch} do not divide; allowed: "
            f"{', '.join(map(str, fits))}"
        )

    # a head must compare the same groups of rows at every world size and micro-batch
    rows = min(data.micro_batch, share)
    for head, options in config.model.heads.items():
        if rows % (options.compared_rows or 1):
            raise ConfigurationError(
                f"model.heads.{head}.group_size: expected a divisor of the {rows} rows that each "
                f"of {world_size} ranks reads at once, got {options.compared_rows}: lower it, "
                "start fewer ranks, or raise data.micro_batch or data.global_batch"
            )

    return max(1, share // data.micro_batch)


def check_schedule(options: ScheduleOptions, end: int) -> None:
    """Refuse a decay or a warm-up that lies beyond the `end` of the schedule, in steps."""
    branch = options.branch_step
    if branch is not None and branch >= end:
        raise ConfigurationError(
            f"schedule.decay_from: expected a step before the end of the schedule at {end}, got "
            f"{branch}: raise steps (and schedule.steps, if it is set)"
        )

    if options.warmup > end:
        raise ConfigurationError(
            f"schedule.warmup: expected at most {end}, the steps of the schedule (schedule.steps, "
            f"by default steps), got {options.warmup}: the learning rate would never reach its "
            "peak; set schedule.warmup=0.1 for a tenth, raise steps, or set schedule.steps to "
            f"{options.warmup} or more if this run is the first part of a longer one"
        )


def zero_stage(config: TrainConfig, world_size: int, stage: int | None = None) -> int:
    """Return the ZeRO stage that runs for a stage; None: the configured stage.

    One rank in fp32 runs stages 1 and 2 as stage 0: their fp32 master weights would only be a
    second copy.
    """
    stage = config.zero.stage if stage is None else stage
    alone = world_size == 1 and config.precision != "bf16" and config.zero.offload == "none"
    return 0 if alone and stage < 3 else stage


def frozen(config: TrainConfig) -> dict[str, Any]:
    """Return the dotted keys that a resumed run must share with its checkpoint, with values."""
    shared = flatten(fixed_keys(config, to_data(config))) | {"data.lanes": config.data.lane_count}
    shared["hooks"] = [hook.as_dict() for hook in config.hooks if not hook.type.observes]
    digests = plugins.digests(_deciding_types(config))
    return shared | {f"code.{name}": digest for name, digest in digests.items()}


def _deciding_types(config: TrainConfig) -> list[type]:
    """Return the classes of all algorithms of a run except hooks that only observe."""
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    values["hooks"] = [hook for hook in config.hooks if not hook.type.observes]
    return list(component_types(values))


def with_absolute_paths(value: Any) -> Any:
    """Return a configuration with absolute paths; URLs do not change."""
    if isinstance(value, Path):
        return value if as_url(value) is not None else local_path(value).absolute()

    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(map(with_absolute_paths, value))
    if isinstance(value, dict):
        return {key: with_absolute_paths(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        before = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        after = {name: with_absolute_paths(old) for name, old in before.items()}
        if after == before:
            return value

        # build it again, by the names of its keys
        aliases = {
            name: field.alias
            for name, field in getattr(value, "__pydantic_fields__", {}).items()
            if field.alias
        }
        return type(value)(**{aliases.get(name, name): new for name, new in after.items()})

    return value
