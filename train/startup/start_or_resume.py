"""Find where a run starts: at step 0, or at a checkpoint that its configuration can continue.

Also choose `precision`, `compile` and `deterministic` where the configuration says `auto`. On
processors `auto` is fp32, not compiled and deterministic. On a GPU it is bf16 where the GPU has it,
compiled, and with the fastest kernels, as far as the other keys allow. A resumed run keeps the
choices of its first start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Final

import torch

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints.checkpoint import parameter_shapes
from clozeline.pipeline.shards import ShardSet
from clozeline.train.checkpoint.state import TrainState, find_changes, is_allowed
from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint
from clozeline.train.checkpoint.trained_model import ids_of_run, read_config
from clozeline.train.configuration.config import TrainConfig, check_schedule, frozen
from clozeline.train.data.sets.datasets import Datasets
from clozeline.train.data.sets.recorded_sets import TOKENIZER_FOLDER, add_meanings
from clozeline.train.data.sets.token_ids import refuse_other_ids
from clozeline.train.data.stream.phases import distinct_sets
from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.process_group import World, set_determinism
from clozeline.train.hooks import Hook
from clozeline.train.logs.plan import describe_unfallen_rate

_CPU_VALUES: Final[dict[str, Any]] = {"precision": "fp32", "compile": False, "deterministic": True}
_GPU_VALUES: Final[dict[str, Any]] = {"precision": "bf16", "compile": True, "deterministic": False}
_MIN_BF16_CAPABILITY: Final = (8, 0)
"""Least compute capability of a GPU that multiplies in bf16."""
_COMPARED_VOCABULARY: Final = 1024
"""Vocabulary size with which the shapes of two models are compared."""
_MOST_KEYS: Final = 3
"""Changed keys that a message proposes to allow one by one, not by the keys that they are below."""
_MIN_COMPILE_CAPABILITY: Final = (7, 0)
"""Least compute capability for which torch.compile has a backend."""


@dataclass(frozen=True)
class StartingPoint:
    """Step 0 or a checkpoint; finding it has changed nothing in the run directory."""

    config: TrainConfig
    """the configuration with `schedule.steps` filled in, and without `auto`"""
    state: TrainState
    """state before step 1, with the description of the run by this start"""
    checkpoint: StoredCheckpoint | None
    """the checkpoint to resume from"""
    choices: tuple[str, ...] = ()
    """lines on the choices for the device"""
    RENEWED: ClassVar = (
        *("frozen", "dataset", "shape", "versions", "tokenizer", "meanings", "heldout_sets"),
    )
    """keys of the state that a start renews"""

    @property
    def name(self) -> str | None:
        """Name of the checkpoint."""
        return None if self.checkpoint is None else self.checkpoint.folder.name

    @property
    def saved(self) -> TrainState | None:
        """State in that checkpoint."""
        return None if self.checkpoint is None else self.checkpoint.state

    @property
    def trunk(self) -> Path | None:
        """The run from which this run branches off at this point; None without a branch."""
        return self.config.branch_from if _is_branch(self.config, self.checkpoint) else None

    @property
    def has_other_heldout(self) -> bool:
        """Whether the losses in the checkpoint are of other held-out sets."""
        before = {} if self.saved is None else self.saved.heldout_sets
        return before not in ({}, self.state.heldout_sets)

    @property
    def step(self) -> int:
        """Steps done."""
        return 0 if self.saved is None else self.saved.step

    def check_agreement(self, world: World) -> None:
        """Check that all ranks start with the same configuration, data, shape and versions."""
        mine = (self.state.frozen, self.state.dataset, self.state.shape, self.state.versions)
        for rank, theirs in enumerate(world.gather(mine)):
            for here, there in zip(mine, theirs, strict=True):
                if here != there:
                    raise ConfigurationError(
                        f"ranks disagree: rank {world.rank} has {here}, rank {rank} has {there}"
                    )

    def position(self, stream: Stream, base: str, hooks: Sequence[Hook]) -> TrainState:
        """Move the stream to the starting point and return the state there."""
        state = self.state
        if self.saved is not None:
            now = {key: getattr(state, key) for key in self.RENEWED}
            state = replace(self.saved, **now)
            if self.has_other_heldout:
                state = replace(state, heldout_loss=None, heldout_losses=(), best=None)

        saved_stream = state.stream or {**stream.state_dict(), "samples": state.samples}
        free = [
            key
            for key in ("seed", "lanes")
            if is_allowed(f"data.{key}", self.config.checkpoint.allow_changed)
        ]

        stream.load_state_dict(saved_stream, allow_changed=["data", *free])
        state = replace(state, stream=stream.state_dict(), base=base)
        for hook in hooks:
            state = state.with_added(hook.in_state)
        return state

    def schedule_note(self) -> str:
        """Return a note on a long warm-up, or on an end that is not the schedule's; else empty."""
        horizon = self.config.schedule.options.steps
        steps = self.config.last_step
        schedule = self.config.schedule.build(horizon)
        if 2 * schedule.warmup > horizon:
            return (
                f"schedule.warmup: the rate rises for {schedule.warmup} of {horizon} steps; write "
                "0.1 for a tenth of the steps"
            )

        if steps > horizon and schedule(steps) == schedule(horizon):
            return (
                f"the schedule ends at step {horizon}: until step {steps} the rate keeps its last "
                "value"
            )

        if unfallen := describe_unfallen_rate(self.config):
            allowed = "" if self.saved is None else f"{_allow(self.config, 'schedule.steps')} "
            return f"{unfallen}; for a finished model, set {allowed}schedule.steps={steps}"

        return ""

    def resume_note(self) -> str:
        """Return the line of a dry run on the checkpoint to resume from; empty without one."""
        if self.saved is None:
            return ""
        steps = self.config.last_step
        horizon = self.config.schedule.options.steps
        origin = f", apart from {self.trunk}" if self.trunk else ", as at its first start"
        done = f"{self.step:,} of {steps:,}" if self.step < steps else "all"
        return (
            f"resume     from {self.name}: {done} steps are done; the schedule ends at "
            f"{horizon:,}{origin}"
        )


def find_starting_point(
    config: TrainConfig,
    datasets: Datasets,
    world_size: int,
    device: torch.device,
    checkpoint: StoredCheckpoint | None,
) -> StartingPoint:
    """Return where a run starts: at a checkpoint, at a branch of another run, or at step 0."""
    checkpoint = checkpoint or branch_point(config)
    if checkpoint is None and config.resume == "must":
        raise ConfigurationError(
            f"resume=must: {config.output / 'checkpoints'} has no valid checkpoint"
        )

    # read the state of the checkpoint
    saved = None if checkpoint is None else checkpoint.state
    branches = _is_branch(config, checkpoint)

    # fill in the keys that say `auto`
    asked = config
    config = fill_in_defaults(config, device, saved)
    choices = describe_defaults(asked, config, device, saved)

    if saved is not None and saved.optimizer not in (None, config.optimizer.name):
        choices.append(
            f"optimizer  {config.optimizer.name} starts without states: the checkpoint has states "
            f"of {saved.optimizer}"
        )

    # fix the end of the schedule
    horizon = config.schedule.options.steps
    if horizon is None and saved is not None and not branches:
        horizon = saved.frozen.get("schedule.steps")  # frozen at the first start
    config = config.with_horizon(horizon or config.last_step)
    check_schedule(config.schedule.options, config.schedule.options.steps)
    _refuse_rates(config)

    # describe this start, and compare it with the checkpoint
    shape: dict[str, object] = {"world_size": world_size, "zero_stage": config.zero.stage}
    shape |= {"micro_batch": config.data.micro_batch, "device": device.type} | shape_of(config)
    versions = {name: version(name) for name in ("torch", "deepspeed", "safetensors")}
    before = saved or TrainState(step=0, samples=0)
    sets = (*distinct_sets(datasets.phases), *datasets.heldout.values())
    manifests = [shards.manifest for shards in sets]
    state = TrainState(
        step=0,
        samples=0,
        frozen=frozen(config),
        dataset=datasets.description,
        shape=shape,
        versions=versions,
        tokenizer=before.tokenizer or datasets.train.manifest.tokenizer.fingerprint,
        meanings=add_meanings(before.meanings, manifests, config.model.languages, config.output),
        heldout_sets=datasets.heldout_digests or before.heldout_sets,
    )
    if checkpoint is not None:
        _refuse_other_vocabulary(checkpoint, datasets.train)
    if saved is not None:
        _refuse_changes(saved, state, config, ("schedule",) if branches else ())
    if saved is None or saved.step <= config.last_step:
        _refuse_standstill(config, saved)
    return StartingPoint(config, state, checkpoint, tuple(choices))


def branch_point(config: TrainConfig) -> StoredCheckpoint | None:
    """Return the checkpoint at which a new branch starts; None without a branch."""
    if config.branch_from is None:
        return None
    step = config.schedule.options.branch_step
    if step is None:
        raise ConfigurationError(
            f"branch_from: {config.branch_from} needs schedule.decay_from, the step of the branch"
        )
    return StoredCheckpoint.find(config.branch_from, step)


def _is_branch(config: TrainConfig, checkpoint: StoredCheckpoint | None) -> bool:
    trunk = config.branch_from
    return (
        trunk is not None
        and checkpoint is not None
        and checkpoint.folder.is_relative_to(trunk / "checkpoints")
    )


def _refuse_changes(
    saved: TrainState, now: TrainState, config: TrainConfig, free: tuple[str, ...]
) -> None:
    if changes := find_changes(saved, now, (*config.checkpoint.allow_changed, *free)):
        listed = "\n  ".join(changes)
        keys = [change.partition(": ")[0].removesuffix(" (digest)") for change in changes]
        if len(keys) > _MOST_KEYS:
            keys = [*dict.fromkeys(key.partition(".")[0] for key in keys)]
        remedy = f"choose another output, or allow the change: {_allow(config, *keys)}"

        if not _fits_weights(config):
            remedy = (
                "choose another output, or undo the change: the saved weights do not fit the "
                "changed model"
            )

        raise ConfigurationError(
            f"{config.output} has a checkpoint of another configuration:\n  {listed}\n{remedy}"
        )


def _allow(config: TrainConfig, *keys: str) -> str:
    """Return the word that allows further keys to change, to be copied."""
    return f"checkpoint.allow_changed=[{','.join((*config.checkpoint.allow_changed, *keys))}]"


def _refuse_other_vocabulary(checkpoint: StoredCheckpoint, shards: ShardSet) -> None:
    """Refuse training sets of another tokenizer, whatever may change."""
    ids = ids_of_run(checkpoint)
    kept = checkpoint.folder.parents[1] / TOKENIZER_FOLDER
    remedy = (
        "to go on with this run, make the sets with its vocabulary: run the pipeline with "
        f"train_tokenizer=null tokenizer.path={kept}; for the new vocabulary, choose another "
        "output, which starts at step 0"
    )
    refuse_other_ids(ids, shards, "data.shards", remedy)


def _fits_weights(config: TrainConfig) -> bool:
    """Return whether the model has parameters of the same shapes as the run in its folder."""
    try:
        earlier_model = read_config(config.branch_from or config.output).model
    except ConfigurationError:  # the earlier model is not known
        return True
    size = _COMPARED_VOCABULARY
    return parameter_shapes(earlier_model, size) == parameter_shapes(config.model, size)


def _refuse_rates(config: TrainConfig) -> None:
    """Refuse a custom schedule whose multiplier is outside 0..1 at one of 100 steps."""
    schedule = config.schedule.build(config.schedule.options.steps)
    for step in (max(1, config.last_step * part // 100) for part in range(1, 101)):
        if not 0 <= (rate := schedule(step)) <= 1:
            raise ConfigurationError(
                f"schedule {config.schedule.name}: expected a multiplier of the learning rate from "
                f"0 to 1, got {rate} at step {step}"
            )


def _refuse_standstill(config: TrainConfig, saved: TrainState | None) -> None:
    """Refuse further steps if the schedule's learning rate has reached 0 before them."""
    horizon = config.schedule.options.steps
    saved_step = 0 if saved is None else saved.step
    first = max(saved_step, horizon or config.last_step) + 1
    if first > config.last_step or config.schedule.build(horizon)(config.last_step):
        return
    remedy = f"set schedule.steps={config.last_step}, or choose another schedule"

    if saved is not None:
        remedy = (
            "for a longer schedule, set schedule.steps at the first start; to continue from here, "
            f"set {_allow(config, 'schedule.steps')} schedule.steps={config.last_step} (or allow "
            "schedule, and choose another one); the rate then jumps up"
        )

    raise ConfigurationError(
        f"steps: the learning rate of the schedule {config.schedule.name} is 0 from step {horizon} "
        f"on, and steps {first} to {config.last_step} would learn nothing: {remedy}"
    )


def fill_in_defaults(
    config: TrainConfig, device: torch.device, saved: TrainState | None
) -> TrainConfig:
    """Return the configuration without `auto`.

    The values are those of the checkpoint, else the fastest that device and other keys allow.
    """
    saved_values = {} if saved is None else _read_values(saved)
    fastest = _GPU_VALUES | _unsupported_keys(device) if device.type == "cuda" else _CPU_VALUES
    for key in automatic_keys(config):
        if key in saved_values:
            config = replace(config, **{key: saved_values[key]})
            continue
        try:  # the checks across keys decide, such as no bf16 at stage 0
            config = replace(config, **{key: fastest[key]})
        except ValueError:
            config = replace(config, **{key: _CPU_VALUES[key]})
    return config


def automatic_keys(config: TrainConfig) -> list[str]:
    """Return the keys that say `auto`."""
    return [key for key in _CPU_VALUES if getattr(config, key) == "auto"]


def shape_of(config: TrainConfig) -> dict[str, object]:
    """Return the values of `compile` and `deterministic` that differ from the values on a CPU.

    A checkpoint records them next to its frozen keys.
    """
    return {
        key: getattr(config, key)
        for key in ("compile", "deterministic")
        if getattr(config, key) != _CPU_VALUES[key]
    }


def describe_defaults(
    asked: TrainConfig, config: TrainConfig, device: torch.device, saved: TrainState | None
) -> list[str]:
    """Return the lines on what `auto` became: chosen for a GPU, or kept on another device."""
    automatic = automatic_keys(asked)
    lines = []
    values = ", ".join(f"{key}={str(getattr(config, key)).lower()}" for key in automatic)
    saved_device = device.type if saved is None else saved.shape.get("device", device.type)
    if automatic and saved_device != device.type:
        lines.append(
            f"device     {device.type}, the run started on {saved_device}: it keeps {values}"
        )
    elif automatic and device.type == "cuda":
        lines.append(f"device     {device.type}: chose {values}")
    return lines


def set_up_kernels(config: TrainConfig, device: torch.device) -> None:
    """Ask torch for deterministic or for fast kernels.

    A GPU multiplies fp32 in TF32, which rounds to 10 bits.
    """
    set_determinism(config.deterministic is True)
    if device.type == "cuda" and config.precision == "fp32":
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True


def _unsupported_keys(device: torch.device) -> dict[str, Any]:
    """Return the CPU's values of the keys that an older GPU does not support."""
    capability = torch.cuda.get_device_capability(device)
    needs: Mapping[str, tuple[int, int]] = {
        "precision": _MIN_BF16_CAPABILITY,
        "compile": _MIN_COMPILE_CAPABILITY,
    }
    return {key: _CPU_VALUES[key] for key, least in needs.items() if capability < least}


def _read_values(saved: TrainState) -> dict[str, Any]:
    """Return the values of the keys in a checkpoint that may say `auto`."""
    precision = saved.frozen.get("precision")
    saved_values = {
        key: saved.shape.get(key, _CPU_VALUES[key]) for key in ("compile", "deterministic")
    }
    return saved_values | ({"precision": precision} if precision in ("fp32", "bf16") else {})
