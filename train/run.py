"""One training run from start to exit code: check, resume or start, train, report."""

import os
from contextlib import ExitStack, closing
from functools import partial

from clozeline.command import Detail
from clozeline.configuration.config import to_data
from clozeline.foreign_code import note_key
from clozeline.train.checkpoint.checkpoints import Checkpoints, restore
from clozeline.train.checkpoint.save_pace import SavePace
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.engine_config import placement_of
from clozeline.train.data.sets.datasets import open_stream
from clozeline.train.distributed.launcher import describe_environment
from clozeline.train.distributed.process_group import (
    World,
    device_of,
    gc_frozen,
    join_process_group,
)
from clozeline.train.distributed.stopping import Interrupted, StopRequest
from clozeline.train.distributed.watchdog import Watchdog
from clozeline.train.engine import Engine
from clozeline.train.evaluate import open_heldout
from clozeline.train.logs.cost_estimate import (
    estimate_cost,
    operations_per_second,
    peak_of,
)
from clozeline.train.logs.data_health import LoadingHealth
from clozeline.train.logs.display import Display, announcer
from clozeline.train.logs.journal import Journal
from clozeline.train.logs.plan import describe_plan
from clozeline.train.logs.profiling import Profiler
from clozeline.train.logs.recorder import Recorder
from clozeline.train.loop import TrainingJob, train
from clozeline.train.startup.announcements import announce_start, describe_start
from clozeline.train.startup.fill_in import Start, check_start
from clozeline.train.startup.run_directory import lock_run, prepare_directory
from clozeline.train.startup.start_or_resume import find_starting_point, set_up_kernels
from clozeline.train.startup.starting_model import build_starting_model


def run_training(config: TrainConfig, joined: World | None = None, detail: Detail = "usual") -> int:
    """Train; return 0 if the run is complete, 75 if it was asked to stop and its state is saved.

    Args:
        config: the run.
        joined: a process group that this process has joined; the caller leaves it. None: join one
            here, and leave it at the end.
        detail: how much is printed.

    Raises:
        ClozelineError: the run cannot start or continue; raised on every rank.
    """
    # check the configuration and the data sets, then join the other ranks
    _, size = describe_environment()
    start = check_start(config, size, joined.device if joined else device_of(os.environ))
    world = joined or join_process_group(
        timeout_s=start.config.collective_timeout_s,
        deterministic=start.config.deterministic is True,
    )
    if world.size > 1:
        with world.sharing_errors():
            start.datasets.check_files(world.rank, world.local_rank)

    with ExitStack() as resources:
        # lock the run directory: no other process writes to it
        with world.sharing_errors():
            if world.rank == 0:
                resources.enter_context(lock_run(start.config.output, start.config.resume))

        journal = resources.enter_context(
            closing(Journal(start.config.output, start.config.log, world.rank))
        )

        try:
            steps = start.config.last_step
            display = resources.enter_context(Display(steps, world.rank, detail=detail))
            code = _build_and_train(start, world, journal, display, resources)
        except (KeyboardInterrupt, Interrupted):
            raise
        except BaseException as error:  # code of others may exit, and libraries panic
            note_key(error, to_data(start.config))
            journal.fail(error)
            raise

    # leave the process group
    world.barrier()
    if joined is None:
        world.shutdown()
    return code


def _build_and_train(
    start: Start, world: World, journal: Journal, display: Display, resources: ExitStack
) -> int:
    """Build everything, then train; return the exit code.

    Whatever can be refused is built before the run directory is written to.
    """
    config, datasets = start.config, start.datasets
    stop = resources.enter_context(StopRequest())
    announce = announcer(journal, display)

    # find the checkpoint to resume from
    checkpoints = Checkpoints(config.output / "checkpoints", config.checkpoint, world, announce)
    checkpoint = None if config.resume == "never" else checkpoints.find()

    with world.sharing_errors():
        point = find_starting_point(start, checkpoint)

    point.check_agreement(world)
    set_up_kernels(world.device, config.precision, deterministic=config.deterministic is True)

    if point.step > config.last_step:
        display.say(
            f"already at step {point.step}, steps={config.last_step} is less: nothing to do"
        )
        return 0

    # build the model, sharded from the start at ZeRO stage 3, and estimate the cost
    with world.sharing_errors():
        starting = build_starting_model(point, datasets.train, placement_of(config, world))
        stop.interrupts = True  # the estimate reads a block of each set, which can take long
        cost = estimate_cost(config, starting.model, datasets, world.size)
        stop.interrupts = False

    # build the optimizer and the engine under ZeRO, and load the checkpoint into them
    uncompiled = partial(announce, "not_compiled") if "compile" in start.sources else None
    engine = resources.enter_context(
        closing(Engine(starting.model, config, world, starting.hooks, uncompiled))
    )
    with world.sharing_errors():
        restore(engine, point.checkpoint, starting.new)

    # open the data at the position of the checkpoint
    heldout = open_heldout(config.data, config.evaluate.max_rows, datasets, world, resources)
    stream = resources.enter_context(
        open_stream(config.data, datasets.phases, world.rank, world.size)
    )
    state = point.position(stream, starting.base, engine.hooks)

    # write to the run directory for the first time
    with world.sharing_errors():
        if world.rank == 0:
            prepare_directory(point, state, journal, announce)

    resources.enter_context(journal.renewed())
    checkpoints.prepare()

    # announce the start: model and cost, or the checkpoint
    measured = operations_per_second(world.device, config.precision)
    peak = peak_of(world.device, config.precision, measured)
    plan = describe_plan(cost)
    lines = describe_start(point, starting, cost, measured, plan)
    announce_start(point, lines, engine, display, journal, plan)

    # watch the data, the records and the time
    streams = [stream, *(heldout_set.stream for heldout_set in heldout)]
    health = LoadingHealth(streams, world, config.data.max_damaged_fraction, announce)
    watchdog = resources.enter_context(Watchdog(config.watchdog_s, world.rank, journal.progress))
    recorder = Recorder(engine, health, journal, display, cost, peak)
    recorder.record_data(state)
    profiler = None
    if config.profile is not None and world.rank == 0:
        profiler = Profiler(config.profile, config.output, world.device, announce)
        resources.callback(profiler.close)

    pace = SavePace(world.rank, by_time=config.checkpoint.every == "auto")

    # train, evaluate and save until the run is complete or a stop is requested
    job = TrainingJob(
        config,
        world,
        engine,
        stream,
        heldout,
        checkpoints,
        recorder,
        watchdog,
        stop,
        pace,
        profiler,
    )
    with gc_frozen():
        state = train(job, state)
    return recorder.finish(state, job.is_complete(state), stop.reason)
