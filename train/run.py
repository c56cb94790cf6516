"""One run, from configuration to exit code: checks, start, resume, loop, report."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from importlib.metadata import version

import torch

from model.build import Model, build_model
from pipeline.errors import ConfigurationError
from pipeline.seeding import keyed_hash
from pipeline.shards import Manifest
from train.checkpoint.checkpoints import Checkpoints, load
from train.checkpoint.format import Index
from train.checkpoint.state import TrainState, changed_keys, read_state
from train.config import TrainConfig, check_world, frozen, present_frozen
from train.cost_estimate import estimate_cost, operations_per_second
from train.datasets import Datasets, open_datasets, open_stream
from train.distributed import World, describe_environment, device_of, start
from train.engine import Engine
from train.errors import STOPPED
from train.evaluate import HeldoutSet, batches_of_pass
from train.logs.data_health import LoadingHealth
from train.logs.display import Display
from train.logs.journal import Journal
from train.logs.recorder import Recorder, announcer, memory_by_rank
from train.logs.report import closing_lines, write_report
from train.loop import Run, train
from train.run_directory import claim, save_config
from train.stopping import StopRequest
from train.stream.phases import distinct_sets
from train.stream.stream import Stream
from train.watchdog import Watchdog

__all__ = ["dry_run", "run"]


def dry_run(config: TrainConfig) -> int:
    """Check everything that a start checks and print the cost of the run; write nothing, join nothing."""
    rank, size = describe_environment(os.environ)
    check_world(config, size)
    _refuse_standstill(config.with_horizon(_horizon(config, None)))
    datasets = open_datasets(config)
    model = _build(config, datasets.train.manifest)
    open_stream(config.data, datasets.phases, rank, size).close()
    if rank == 0:
        cost = estimate_cost(config, model, datasets, size)
        lines = cost.lines(operations_per_second(device_of(os.environ), config.precision))
        sys.stdout.write("\n".join([*lines, "dry run: everything fits together", ""]))
    return 0


def run(config: TrainConfig, joined: World | None = None) -> int:
    """Train; return 0 when `steps` are reached, 75 when a stop request came first and the state is saved.

    Args:
        config: the run.
        joined: ranks that have started already and are kept; default: join them here, and leave at the end.

    Raises:
        ClozelineError: on every rank, if the run cannot begin or continue.
    """
    _, size = describe_environment(os.environ)
    check_world(config, size)
    datasets = open_datasets(config)
    world = joined or start()
    with ExitStack() as parts:
        with world.together():
            if world.rank == 0:
                parts.enter_context(claim(config))
        journal = parts.enter_context(closing(Journal(config.output, config.log, world.rank)))
        try:
            code = _train(config, world, datasets, journal, parts)
        except Exception as error:
            journal.failed(error)
            raise
    world.barrier()
    if joined is None:
        world.shutdown()
    return code


def _train(config: TrainConfig, world: World, datasets: Datasets, journal: Journal, parts: ExitStack) -> int:
    display = parts.enter_context(Display(config.steps, world.rank))
    stop = parts.enter_context(StopRequest())
    announce = announcer(journal, display)
    checkpoints = Checkpoints(config.output / "checkpoints", config.checkpoint, world, announce)
    checkpoints.prepare()
    found = None if config.resume == "never" else checkpoints.find()
    if found is None and config.resume == "must":
        raise ConfigurationError(f"resume=must: {checkpoints.directory} holds no valid checkpoint")
    saved = None if found is None else _saved_state(found[1])
    config = config.with_horizon(_horizon(config, saved))
    state = _begin(config, datasets.description, world)
    if saved is not None:
        _refuse_changes(saved, state, config)
        if saved.step > config.steps:
            display.say(f"already at step {saved.step}, steps={config.steps} is less: nothing to do")
            return 0
    _refuse_standstill(config, saved)
    with world.together():
        model = _build(config, datasets.train.manifest)
        stop.interrupts = True  # it reads a block of each set
        cost = estimate_cost(config, model, datasets, world.size)
        stop.interrupts = False
        if world.rank == 0:
            save_config(config)
            journal.begin(0 if saved is None else saved.step)
    engine = parts.enter_context(closing(Engine(model, config, world)))
    if found is not None and saved is not None:
        with world.together():
            load(engine, *found)
        _announce_resume(saved, state, found[0].name, display, journal)
        state = replace(saved, frozen=state.frozen, dataset=state.dataset, shape=state.shape, versions=state.versions)
    else:
        for line in cost.lines(operations_per_second(world.device, config.precision)):
            display.say(line)
        journal.event("start", steps=config.steps, shape=state.shape, versions=state.versions)
    if config.steps > (horizon := config.schedule.options.steps):
        display.say(f"the schedule ended at step {horizon}: up to step {config.steps} the rate keeps its last value")
    for shards in (*distinct_sets(datasets.phases), *datasets.heldout.values()):
        if (quarantine := shards.quarantine).sha256:
            blocks = len(shards.quarantined)
            announce("quarantine", shards=str(shards.path), blocks=blocks, sha256=quarantine.sha256)
    stream, heldout = _streams(config, datasets, world, parts)
    saved_stream = state.stream or {**stream.state_dict(), "samples": state.samples}
    stream.load_state_dict(saved_stream, allow_changed=["data"])
    state = replace(state, stream=stream.state_dict())
    if state.stream["data"] != saved_stream["data"]:
        announce("new_phase", step=state.step, samples=state.samples, data=datasets.description)
    supply = LoadingHealth(
        [stream, *(held.stream for held in heldout)], world, config.data.max_damaged_fraction, announce
    )
    plans = state.stream["data"]
    journal.event("data", step=state.step, samples=state.samples, phases=supply.phases(), plans=plans)
    watchdog = parts.enter_context(Watchdog(config.watchdog_s, world.rank))
    recorder = Recorder(engine, supply, journal, display)
    job = Run(config, world, engine, stream, heldout, checkpoints, recorder, watchdog, stop)
    return _finish(job, journal, display, train(job, state))


def _streams(
    config: TrainConfig, datasets: Datasets, world: World, parts: ExitStack
) -> tuple[Stream, list[HeldoutSet]]:
    """Open the training stream and the held-out sets; `parts` closes them."""
    opened = partial(open_stream, config.data, rank=world.rank, size=world.size)
    heldout = [
        HeldoutSet(
            name,
            parts.enter_context(opened([datasets.heldout_phase(name)])),
            batches_of_pass(len(shards), config.data.global_batch, config.evaluate.max_rows),
            shards.manifest.tokenizer.vocab_size,
        )
        for name, shards in datasets.heldout.items()
    ]
    return parts.enter_context(opened(datasets.phases)), heldout


def _finish(job: Run, journal: Journal, display: Display, state: TrainState) -> int:
    """Report how the run ended; return its exit code."""
    config, done = job.config, job.done(state)
    code = 0 if done else STOPPED
    reason = None if done else job.stop.reason or "asked on another rank"
    memory = memory_by_rank(job.engine)
    journal.event("memory", step=state.step, ranks=memory)
    journal.event("done" if done else "stop", step=state.step, reason=reason, exit_code=code)
    journal.status("done" if done else "stopped", step=state.step, exit_code=code)
    if job.world.rank == 0:
        report = write_report(config, memory)
        for line in closing_lines(config.output, state, config.steps, reason):
            display.say(line)
        display.say(f"report {report}")
    return code


def _horizon(config: TrainConfig, saved: TrainState | None) -> int:
    """Return the last step of the schedule: given, or frozen at the first start."""
    given: int | None = config.schedule.options.steps
    if given is None and saved is not None:
        given = saved.frozen.get("schedule.steps")
    return given or config.steps


def _begin(config: TrainConfig, dataset: str, world: World) -> TrainState:
    """Return the state before the first step, the same on every rank.

    Raises:
        ConfigurationError: ranks differ in configuration, data or versions; the message holds both values.
    """
    versions = {name: version(name) for name in ("torch", "deepspeed", "safetensors")}
    shape = {
        "world_size": world.size,
        "zero_stage": config.zero.stage,
        "micro_batch": config.data.micro_batch,
        "device": world.device.type,
    }
    state = TrainState(step=0, samples=0, frozen=frozen(config), dataset=dataset, shape=shape, versions=versions)
    for rank, other in enumerate(world.gather((state.frozen, state.dataset, state.shape, state.versions))):
        for mine, theirs in zip((state.frozen, state.dataset, state.shape, state.versions), other, strict=True):
            if mine != theirs:
                raise ConfigurationError(f"ranks disagree: rank {world.rank} has {mine}, rank {rank} has {theirs}")
    return state


def _saved_state(index: Index) -> TrainState:
    state = read_state(index)
    return replace(state, frozen=present_frozen(state.frozen))


def _refuse_changes(saved: TrainState, now: TrainState, config: TrainConfig) -> None:
    if changes := changed_keys(saved, now, config.checkpoint.allow_changed):
        listed = "\n  ".join(changes)
        keys = [change.split(":")[0].removesuffix(" (digest)") for change in changes]
        raise ConfigurationError(
            f"{config.output}: its checkpoint belongs to another run:\n  {listed}\n"
            f"choose another output, or allow it: checkpoint.allow_changed=[{', '.join(keys)}]"
        )


def _refuse_standstill(config: TrainConfig, saved: TrainState | None = None) -> None:
    """Refuse steps that would change nothing, because the schedule has reached a rate of 0 before them.

    Raises:
        ConfigurationError: the message says how to continue.
    """
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


def _announce_resume(saved: TrainState, now: TrainState, name: str, display: Display, journal: Journal) -> None:
    exact = saved.shape == now.shape and saved.versions == now.versions
    journal.event("resume", step=saved.step, checkpoint=name, exact=exact, was=saved.shape, shape=now.shape)
    display.say(f"resumed from {name}")
    if not exact:
        display.say(f"the run was {saved.shape} and is {now.shape} now: the state is the same, rounding will differ")


def _build(config: TrainConfig, manifest: Manifest) -> Model:
    """Build the model with its initial weights, a function of `seed` alone."""
    torch.manual_seed(keyed_hash("weights", config.seed) >> 1)
    return build_model(config.model, manifest.tokenizer.vocab_size, manifest.tokenizer.special_ids)
