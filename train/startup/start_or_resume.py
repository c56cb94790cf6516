"""Find where a run starts: at step 0, or at a checkpoint that its configuration can continue."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar, Final

import torch

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints.checkpoint import parameter_shapes
from clozeline.pipeline.shards import ShardSet
from clozeline.train.checkpoint.state import TrainState, find_changes, is_allowed
from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint
from clozeline.train.checkpoint.trained_model import ids_of_run
from clozeline.train.configuration.config import TrainConfig, check_schedule, frozen
from clozeline.train.data.sets.recorded_sets import TOKENIZER_FOLDER, add_meanings
from clozeline.train.data.sets.token_ids import refuse_other_ids
from clozeline.train.data.stream.phases import distinct_sets
from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.process_group import World, set_determinism
from clozeline.train.hooks import Hook
from clozeline.train.logs.plan import describe_unfallen_rate
from clozeline.train.startup.fill_in import CPU_VALUES, Start

_COMPARED_VOCABULARY: Final = 1024
"""Vocabulary size with which the shapes of two models are compared."""
_MOST_KEYS: Final = 3
"""Changed keys that a message proposes to allow one by one, not by the keys that they are below."""


@dataclass(frozen=True)
class StartingPoint:
    """Step 0 or a checkpoint; finding it has changed nothing in the run directory."""

    start: Start
    """the complete configuration, and what it follows from"""
    state: TrainState
    """state before step 1, with the description of the run by this start"""
    checkpoint: StoredCheckpoint | None
    """the checkpoint to resume from"""
    trunk: Path | None = None
    """the run from which this run branches off here; None without a branch"""
    choices: tuple[str, ...] = ()
    """lines on the choices for the device"""
    RENEWED: ClassVar = (
        *("frozen", "dataset", "shape", "versions", "tokenizer", "meanings", "heldout_sets"),
    )
    """keys of the state that a start renews"""

    @property
    def config(self) -> TrainConfig:
        """The complete configuration."""
        return self.start.config

    @property
    def name(self) -> str | None:
        """Name of the checkpoint."""
        return None if self.checkpoint is None else self.checkpoint.folder.name

    @property
    def saved(self) -> TrainState | None:
        """State in that checkpoint."""
        return None if self.checkpoint is None else self.checkpoint.state

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
            allow = f"{self.config.checkpoint.allow('schedule.steps')} " if self.saved else ""
            return f"{unfallen}; for a finished model, set {allow}schedule.steps={steps}"

        return ""

    def resume_note(self) -> str:
        """Return the line on the checkpoint to resume from; empty without one."""
        if self.saved is None:
            return ""
        steps = self.config.last_step
        horizon = self.config.schedule.options.steps
        trunk = f" of {self.trunk}" if self.trunk else ""
        done = f"{self.step:,} of {steps:,}" if self.step < steps else "all"
        return (
            f"resume     from {self.name}{trunk}: {done} steps are done; the schedule ends at "
            f"{horizon:,}"
        )


def find_starting_point(start: Start, checkpoint: StoredCheckpoint | None) -> StartingPoint:
    """Return where a run starts: at a checkpoint, at a branch of another run, or at step 0."""
    config = start.config
    datasets = start.datasets
    trunk = config.branch_from if checkpoint is None else None
    if trunk is not None:
        checkpoint = StoredCheckpoint.find(trunk, config.schedule.options.branch_step)

    # read the state of the checkpoint
    saved = None if checkpoint is None else checkpoint.state
    choices = describe_defaults(start, saved)

    if saved is not None and saved.optimizer not in (None, config.optimizer.name):
        choices.append(
            f"optimizer  {config.optimizer.name} starts without states: the checkpoint has states "
            f"of {saved.optimizer}"
        )

    check_schedule(config.schedule.options, config.schedule.options.steps)

    # describe this start, and compare it with the checkpoint
    shape = {
        "world_size": start.world_size,
        "zero_stage": config.zero.stage,
        "micro_batch": config.data.micro_batch,
        "device": start.device.type,
    }
    # their values on a CPU are not recorded
    for key in ("compile", "deterministic"):
        if (value := getattr(config, key)) != CPU_VALUES[key]:
            shape[key] = value
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
        _refuse_changes(saved, state, start, ("schedule",) if trunk else ())
    if saved is None or saved.step <= config.last_step:
        _refuse_standstill(config, saved)
    return StartingPoint(start, state, checkpoint, trunk, tuple(choices))


def _refuse_changes(
    saved: TrainState, now: TrainState, start: Start, free: tuple[str, ...]
) -> None:
    config = start.config
    earlier = start.earlier.continued
    defaults = {} if earlier is None else frozen(earlier)
    if changes := find_changes(saved, now, (*config.checkpoint.allow_changed, *free), defaults):
        listed = "\n  ".join(changes)
        keys = [change.partition(": ")[0].removesuffix(" (digest)") for change in changes]
        if len(keys) > _MOST_KEYS:
            keys = [*dict.fromkeys(key.partition(".")[0] for key in keys)]
        remedy = f"choose another output, or allow the change: {config.checkpoint.allow(*keys)}"

        if not _fits_weights(start):
            remedy = (
                "choose another output, or undo the change: the saved weights do not fit the "
                "changed model"
            )

        raise ConfigurationError(
            f"{config.output} has a checkpoint of another configuration:\n  {listed}\n{remedy}"
        )


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


def _fits_weights(start: Start) -> bool:
    """Return whether the model has parameters of the same shapes as the run in its folder."""
    earlier = start.earlier.continued
    models = [start.config.model, *([] if earlier is None else [earlier.model])]
    shapes = [parameter_shapes(model, _COMPARED_VOCABULARY) for model in models]
    return shapes[0] == shapes[-1]


def _refuse_standstill(config: TrainConfig, saved: TrainState | None) -> None:
    """Refuse further steps if the schedule's learning rate has reached 0 before them."""
    horizon = config.schedule.options.steps
    saved_step = 0 if saved is None else saved.step
    first = max(saved_step, horizon or config.last_step) + 1
    if first > config.last_step or config.schedule.build(horizon)(config.last_step):
        return
    longer = f"schedule.steps={config.last_step}"
    remedy = f"set {longer}, or choose another schedule"

    if saved is not None:
        remedy = (
            "for a longer schedule, set schedule.steps at the first start; to continue from here, "
            f"set {config.checkpoint.allow('schedule.steps')} {longer} (or allow schedule, and "
            "choose another one); the rate then jumps up"
        )

    raise ConfigurationError(
        f"steps: the learning rate of the schedule {config.schedule.name} is 0 from step {horizon} "
        f"on, and steps {first} to {config.last_step} would learn nothing: {remedy}"
    )


def describe_defaults(start: Start, saved: TrainState | None) -> list[str]:
    """Return the line on what `auto` became: chosen for a GPU, or kept on another device."""
    keys = [key for key in CPU_VALUES if key in start.sources]
    values = ", ".join(f"{key}={str(getattr(start.config, key)).lower()}" for key in keys)
    device = start.device.type
    first = device if saved is None else saved.shape.get("device", device)
    how = "chose" if first == device else f"keeps, since the run started on {first},"
    return [f"device     {device}: {how} {values}"] if keys and {device, first} != {"cpu"} else []


def set_up_kernels(device: torch.device, precision: str, *, deterministic: bool) -> None:
    """Ask torch for deterministic or for fast kernels.

    A GPU multiplies fp32 in TF32, which rounds to 10 bits.
    """
    set_determinism(deterministic)
    if device.type == "cuda" and precision == "fp32":
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
