"""The begin of a run, at the start or at a checkpoint, and the reasons to refuse it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import torch

from clozeline.errors import ConfigurationError
from clozeline.train.checkpoint.format import Index
from clozeline.train.checkpoint.state import TrainState, changed_keys, read_state
from clozeline.train.configuration.config import TrainConfig, frozen, present_frozen
from clozeline.train.logs.status import RunStatus


@dataclass(frozen=True)
class Begin:
    """The point at which a start begins; nothing of the run directory has been changed to find it."""

    config: TrainConfig
    """with the horizon of the schedule filled in"""
    state: TrainState
    """before step 1, as this start describes the run"""
    found: tuple[Path, Index] | None
    """the checkpoint to resume from"""
    saved: TrainState | None
    """its state"""

    @property
    def name(self) -> str | None:
        """Name of the checkpoint."""
        return None if self.found is None else self.found[0].name

    @property
    def trunk(self) -> Path | None:
        """The run that goes on in another folder from here, where this is the begin of a branch."""
        return self.config.branch_from if _leaves_trunk(self.config, self.found) else None

    @property
    def step(self) -> int:
        """Number of steps done."""
        return 0 if self.saved is None else self.saved.step

    def beyond_horizon(self) -> str:
        """Return what the rate does after the schedule's last step; empty where that is nothing to know."""
        horizon, steps, options = self.config.schedule.options.steps, self.config.steps, self.config.schedule.options
        schedule = self.config.schedule.build(horizon)
        if steps <= horizon:
            return ""
        if options.warmup > horizon:
            return (
                f"the schedule ends at step {horizon}, within its warm-up: the rate rises up to step "
                f"{min(options.warmup, steps)}"
            )
        if schedule(steps) != schedule(horizon):
            return ""
        return f"the schedule ends at step {horizon}: up to step {steps} the rate keeps its last value"

    def lines(self, status: RunStatus | None) -> list[str]:
        """Return what a dry run says of a run that exists.

        Args:
            status: of the run, if it has one.
        """
        said = [] if status is None else [f"run        {status.text}"]
        if self.saved is not None:
            said = said or ["run        not known, status.json is missing; a start writes it again"]
            steps, horizon = self.config.steps, self.config.schedule.options.steps
            began = f", apart from {self.trunk}" if self.trunk else ", as the run began"
            left = f"{self.step:,} of {steps:,} steps are done" if self.step < steps else "nothing is left to do"
            said.append(f"resume     from {self.name}: {left}; the schedule ends at {horizon:,}{began}")
        return [*said, *filter(None, [self.beyond_horizon()])]


def find_begin(
    config: TrainConfig, dataset: str, world_size: int, device: torch.device, found: tuple[Path, Index] | None
) -> Begin:
    """Return where a run begins.

    Args:
        config: as this start gives it.
        dataset: the training sets, as text.
        world_size: number of ranks.
        device: on which they train.
        found: the checkpoint to resume from.

    Raises:
        ConfigurationError: the run cannot begin or continue with this configuration.
    """
    if found is None and config.resume == "must":
        raise ConfigurationError(f"resume=must: {config.output / 'checkpoints'} holds no valid checkpoint")
    saved = None if found is None else _saved_state(found[1], config)
    branches = _leaves_trunk(config, found)
    config = config.with_horizon(_horizon(config, None if branches else saved))
    _refuse_late_decay(config)
    if saved is None:  # a run that began so continues
        _refuse_long_warmup(config)
    shape = {
        "world_size": world_size,
        "zero_stage": config.zero.stage,
        "micro_batch": config.data.micro_batch,
        "device": device.type,
    }
    versions = {name: version(name) for name in ("torch", "deepspeed", "safetensors")}
    state = TrainState(step=0, samples=0, frozen=frozen(config), dataset=dataset, shape=shape, versions=versions)
    if saved is not None:
        _refuse_changes(saved, state, config, ("schedule",) if branches else ())
    if saved is None or saved.step <= config.steps:
        _refuse_standstill(config, saved)
    return Begin(config, state, found, saved)


def _horizon(config: TrainConfig, saved: TrainState | None) -> int:
    """Return the last step of the schedule: given, or frozen at the first start."""
    given: int | None = config.schedule.options.steps
    if given is None and saved is not None:
        given = saved.frozen.get("schedule.steps")
    return given or config.steps


def _saved_state(index: Index, config: TrainConfig) -> TrainState:
    state = read_state(index)
    return replace(state, frozen=present_frozen(state.frozen, config.model))


def _leaves_trunk(config: TrainConfig, found: tuple[Path, Index] | None) -> bool:
    """Return whether the checkpoint is that of the run from which this one branches off."""
    trunk = config.branch_from
    return trunk is not None and found is not None and found[0].is_relative_to(trunk / "checkpoints")


def _refuse_late_decay(config: TrainConfig) -> None:
    begin, horizon = getattr(config.schedule.options, "decay_from", None), config.schedule.options.steps
    if begin is not None and begin >= horizon:
        raise ConfigurationError(
            f"schedule.decay_from: expected a step before the end of the schedule at {horizon}, got {begin}: raise "
            "steps (and schedule.steps, where it is given)"
        )


def _refuse_long_warmup(config: TrainConfig) -> None:
    warmup, horizon = config.schedule.options.warmup, config.schedule.options.steps
    if warmup > horizon:
        raise ConfigurationError(
            f"schedule.warmup: expected at most {horizon}, the steps of the schedule (schedule.steps, by default "
            f"steps), got {warmup}: the learning rate would never reach its peak; set schedule.warmup={horizon // 10} "
            f"for a tenth, raise steps, or set schedule.steps to {warmup} or more where this run is the first part of "
            "a longer one"
        )


def _refuse_changes(saved: TrainState, now: TrainState, config: TrainConfig, free: tuple[str, ...]) -> None:
    if changes := changed_keys(saved, now, (*config.checkpoint.allow_changed, *free)):
        listed = "\n  ".join(changes)
        keys = [change.split(":")[0].removesuffix(" (digest)") for change in changes]
        raise ConfigurationError(
            f"{config.output}: its checkpoint belongs to another run:\n  {listed}\n"
            f"choose another output, or allow it: checkpoint.allow_changed=[{', '.join(keys)}]"
        )


def _refuse_standstill(config: TrainConfig, saved: TrainState | None) -> None:
    """Refuse steps that would change nothing, because the schedule has reached a rate of 0 before them."""
    horizon, done = config.schedule.options.steps, 0 if saved is None else saved.step
    first = max(done, horizon or config.steps) + 1
    if first > config.steps or config.schedule.build(horizon)(config.steps):
        return
    ways = f"set schedule.steps={config.steps}, or choose another schedule"
    if saved is not None:
        ways = (
            "a longer schedule needs `schedule.steps=` at the first start; to continue from here with one: "
            f"checkpoint.allow_changed=[schedule.steps] schedule.steps={config.steps} (or allow schedule, and choose "
            "another one); the rate then jumps up from where it is"
        )
    raise ConfigurationError(
        f"steps: the learning rate of the schedule {config.schedule.name} is 0 from step {horizon} on, steps {first} "
        f"to {config.steps} would learn nothing: {ways}"
    )
