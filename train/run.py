"""One run, from configuration to exit code: checks, start, resume, loop, report."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Any

from clozeline.configuration.config import to_plain
from clozeline.configuration.redaction import redacted, redacted_text
from clozeline.errors import STOPPED, ConfigurationError
from clozeline.model.adaptation import freeze_base
from clozeline.model.build import Model, build_model
from clozeline.model.parameters.sharding import WHOLE, Placement
from clozeline.pipeline.shards import ShardSet
from clozeline.seeding import keyed_hash
from clozeline.train.checkpoint.checkpoints import Checkpoints, load
from clozeline.train.checkpoint.find_checkpoint import newest_whole
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.checkpoint.zero_partitions import set_anchors
from clozeline.train.configuration.config import TrainConfig, check_world, flatten
from clozeline.train.data.sets.datasets import Datasets, open_datasets, open_stream
from clozeline.train.data.sets.task_answers import with_answers
from clozeline.train.data.sets.unread_columns import unread_lines
from clozeline.train.data.stream.phases import distinct_sets
from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.process_group import World, describe_environment, device_of, start
from clozeline.train.distributed.stopping import StopRequest
from clozeline.train.distributed.watchdog import Watchdog
from clozeline.train.engine import Engine, placement_of
from clozeline.train.evaluate import HeldoutSet, batches_of_pass
from clozeline.train.logs.cost_estimate import estimate_cost, operations_per_second
from clozeline.train.logs.data_health import LoadingHealth
from clozeline.train.logs.display import Display
from clozeline.train.logs.journal import Journal
from clozeline.train.logs.json_lines import last_lines
from clozeline.train.logs.peak_flops import Peak, peak_of
from clozeline.train.logs.profiling import Profiler
from clozeline.train.logs.recorder import Recorder, announcer, memory_by_rank
from clozeline.train.logs.report import closing_lines, write_report
from clozeline.train.logs.reporting import Reporting
from clozeline.train.logs.status import read_status
from clozeline.train.logs.trackers import check_tracker
from clozeline.train.loop import Run, train
from clozeline.train.optim.early_stopping import check_metric, exhausted
from clozeline.train.optim.weights.anchor_weights import check_anchors
from clozeline.train.optim.weights.freezing import freeze
from clozeline.train.startup.branch import branch_point, branched
from clozeline.train.startup.initial_weights import fill, refuse_other_base
from clozeline.train.startup.run_directory import claim, refuse_output, settle, writing
from clozeline.train.startup.source_tokenizer import compare_tokenizers
from clozeline.train.startup.start_or_resume import Begin, find_begin
from clozeline.train.startup.token_characters import spellings_of


def dry_run(config: TrainConfig) -> int:
    """Check everything that a start checks and print the cost of the run; write nothing, join nothing."""
    rank, size = describe_environment(os.environ)
    config = branched(config)
    check_world(config, size)
    check_tracker(config.log.tracker)
    refuse_output(config)
    datasets = open_datasets(config)
    config = _answering(config, datasets)
    lines: list[str] = []
    found = newest_whole(
        config.output / "checkpoints",
        lambda name, reason: lines.append(f"checkpoint {name} is passed over: {reason}"),
        hashes=config.checkpoint.verify == "full",
    )
    found = found or branch_point(config)
    device = device_of(os.environ)
    begin = find_begin(config, datasets.description, size, device, found)
    model = _build(config, datasets.train)
    said, _, fresh = _fill(model, config, begin, datasets.train)
    if config.regularizer is not None and found is None:
        check_anchors(config.regularizer.build(), model, fresh)
    lines += [*said, *_unread(datasets, config)]
    open_stream(config.data, datasets.phases, rank, size).close()
    if rank == 0:
        lines += begin.lines(read_status(config.output))
        measured = operations_per_second(device, config.precision)
        lines += estimate_cost(begin.config, model, datasets, size).lines(measured)
        lines.append(peak_of(device, config.precision, measured).line())
        sys.stdout.write(redacted_text("\n".join([*lines, "dry run: everything fits together", ""])))
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
    config = branched(config)
    check_world(config, size)
    check_tracker(config.log.tracker)
    datasets = open_datasets(config)
    config = _answering(config, datasets)
    world = joined or start(deterministic=config.deterministic)
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
    """Check and build everything, then change the run directory: a start that is refused leaves it as it was."""
    display = parts.enter_context(Display(config.steps, world.rank, config.log.seconds))
    stop = parts.enter_context(StopRequest())
    announce = announcer(journal, display)
    checkpoints = Checkpoints(config.output / "checkpoints", config.checkpoint, world, announce)
    found = None if config.resume == "never" else checkpoints.find()
    with world.together():
        found = found or branch_point(config)
        begin = find_begin(config, datasets.description, world.size, world.device, found)
    _agree(begin.state, world)
    config = begin.config
    if begin.step > config.steps:
        display.say(f"already at step {begin.step}, steps={config.steps} is less: nothing to do")
        return 0
    with world.together():
        placement = placement_of(config, world)
        model = _build(config, datasets.train, placement)
        filled, base, fresh = _fill(model, config, begin, datasets.train, placement)
        stop.interrupts = True  # it reads a block of each set
        cost = estimate_cost(config, model, datasets, world.size)
        stop.interrupts = False
    engine = parts.enter_context(closing(Engine(model, config, world)))
    if begin.found is not None:
        with world.together():
            load(engine, *begin.found)
    with world.together():
        set_anchors(engine, fresh)
    stream, heldout = _streams(config, datasets, world, parts)
    state = replace(_position(begin, stream), base=base)
    with world.together():
        if world.rank == 0:
            _settle(begin, state, datasets, journal, announce)
    checkpoints.prepare()
    display.plan(cost.flops_of_steps)
    measured = operations_per_second(world.device, config.precision)
    peak = peak_of(world.device, config.precision, measured)
    _announce_begin(begin, [*filled, *_unread(datasets, config), *cost.lines(measured)], peak, display, journal)
    _announce_data(begin, state, datasets, announce)
    supply = LoadingHealth(
        [stream, *(held.stream for held in heldout)], world, config.data.max_damaged_fraction, announce
    )
    plans = state.stream["data"]
    journal.event("data", step=state.step, samples=state.samples, phases=supply.phases(), plans=plans)
    watchdog = parts.enter_context(Watchdog(config.watchdog_s, world.rank))
    recorder = Recorder(engine, supply, journal, display, cost, peak)
    profiler = _profiler(config, world, announce, display, parts)
    job = Run(config, world, engine, stream, heldout, checkpoints, recorder, watchdog, stop, profiler)
    return _finish(job, journal, display, train(job, state))


def _unread(datasets: Datasets, config: TrainConfig) -> list[str]:
    """Return what is said of columns of the training sets that the model leaves unread."""
    return unread_lines([one.manifest for one in distinct_sets(datasets.phases)], config.model)


def _answering(config: TrainConfig, datasets: Datasets) -> TrainConfig:
    """Return the configuration with the classes of the task that the sets hold, if they hold one."""
    if config.early_stop is not None:
        check_metric(config.early_stop, datasets.heldout, config.model.heads)
    trained = [(f"the training set {one.path}", one.manifest) for one in distinct_sets(datasets.phases)]
    heldout = [(f"the held-out set {one.path}", one.manifest) for one in datasets.heldout.values()]
    return replace(config, model=with_answers(config.model, [*trained, *heldout]))


def _settle(
    begin: Begin, state: TrainState, datasets: Datasets, journal: Journal, announce: Callable[..., None]
) -> None:
    """Change the run directory for the first time, and say what was found there."""
    config = begin.config
    before = read_status(config.output)
    evaluated = before.heldout if before is not None and state.step else {}
    next(last_lines(config.output / "metrics.jsonl"), None)  # refuses a line of a newer version
    lost = _lost(begin, state)
    settle(config, datasets.phases)
    with writing(config.output):
        dropped = journal.begin(state.step, begin.name)
    journal.track(flatten(redacted(to_plain(config))))
    facts: dict[str, Any] = {"heldout": evaluated} if evaluated else {}
    journal.status("running", steps=config.steps, samples=state.samples, watchdog_s=config.watchdog_s, **facts)
    if before is not None and before.state == "running":
        announce("lost", process=before.process, step=before.step)
    for file in lost:
        announce("records_lost", file=file, steps=state.step)
    if dropped:
        announce("metrics_dropped", lines=dropped)
    for name in sorted(set(evaluated).difference(datasets.heldout)):
        announce("heldout_gone", name=name)


def _lost(begin: Begin, state: TrainState) -> list[str]:
    """Return the names of files that should hold records of the steps of this run up to its checkpoint, and do not."""
    if begin.trunk is not None:
        return []  # the steps are another run's
    first = {"metrics.jsonl": begin.config.log.every, "events.jsonl": 1}
    files = {name: begin.config.output / name for name, step in first.items() if state.step >= step}
    return [name for name, path in files.items() if not path.is_file() or not path.stat().st_size]


def _position(begin: Begin, stream: Stream) -> TrainState:
    """Put the stream where the run begins; return the state there."""
    state = begin.state
    if (saved := begin.saved) is not None:
        state = replace(saved, frozen=state.frozen, dataset=state.dataset, shape=state.shape, versions=state.versions)
    saved_stream = state.stream or {**stream.state_dict(), "samples": state.samples}
    stream.load_state_dict(saved_stream, allow_changed=["data"])
    return replace(state, stream=stream.state_dict())


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
        )
        for name, shards in datasets.heldout.items()
    ]
    return parts.enter_context(opened(datasets.phases)), heldout


def _profiler(
    config: TrainConfig, world: World, announce: Callable[..., None], display: Display, parts: ExitStack
) -> Profiler | None:
    """Return the profiler of the first rank, which `parts` closes; None on others, and where none is asked for."""
    if config.profile is None or world.rank > 0:
        return None
    return parts.enter_context(closing(Profiler(config.profile, config.output, world.device, announce, display.say)))


def _finish(job: Run, journal: Journal, display: Display, state: TrainState) -> int:
    """Report how the run ended; return its exit code."""
    config, done, best = job.config, job.done(state), state.best
    early = best if exhausted(config.early_stop, best) else None
    code = 0 if done else STOPPED
    reason = None if done else job.stop.reason or "asked on another rank"
    memory = memory_by_rank(job.engine)
    journal.event("memory", step=state.step, ranks=memory)
    if early is not None:
        facts = {"metric": early.metric, "best": early.value, "best_step": early.step}
        journal.event("early_stop", step=state.step, evaluations=early.evaluations, **facts)
    journal.event("done" if done else "stop", step=state.step, reason=reason, exit_code=code)
    journal.status("done" if done else "stopped", step=state.step, exit_code=code)
    if job.world.rank == 0:
        reports = Reporting()
        with reports("closing lines"):
            for line in closing_lines(config.output, state, config.steps, reason):
                display.say(line)
        if config.log.report:
            with reports("report.html"):
                display.say(f"report {write_report(config, memory)}")
    return code


def _agree(state: TrainState, world: World) -> None:
    """Compare the ranks."""
    for rank, other in enumerate(world.gather((state.frozen, state.dataset, state.shape, state.versions))):
        for mine, theirs in zip((state.frozen, state.dataset, state.shape, state.versions), other, strict=True):
            if mine != theirs:
                raise ConfigurationError(f"ranks disagree: rank {world.rank} has {mine}, rank {rank} has {theirs}")


def _announce_begin(begin: Begin, cost: Sequence[str], peak: Peak, display: Display, journal: Journal) -> None:
    """Say where the run begins: at the start, with its cost, or at a checkpoint."""
    now, saved = begin.state, begin.saved
    if saved is None:
        for line in (*cost, peak.line()):
            display.say(line)
        facts = {"shape": now.shape, "versions": now.versions, "peak": peak._asdict()}
        journal.event("start", steps=begin.config.steps, **facts)
    else:
        exact = saved.shape == now.shape and saved.versions == now.versions
        facts = {"was": saved.shape, "shape": now.shape, "peak": peak._asdict()}
        journal.event("resume", step=saved.step, checkpoint=begin.name, exact=exact, **facts)
        display.say(f"branch of {begin.trunk} at {begin.name}" if begin.trunk else f"resumed from {begin.name}")
        if not exact:
            display.say(
                f"the run was {saved.shape} and is {now.shape} now: the state is the same, rounding will differ"
            )
    if beyond := begin.beyond_horizon():
        display.say(beyond)


def _announce_data(begin: Begin, state: TrainState, datasets: Datasets, announce: Callable[..., None]) -> None:
    """Say what is known of the data: blocks in quarantine, and a change since the checkpoint."""
    for shards in (*distinct_sets(datasets.phases), *datasets.heldout.values()):
        if (quarantine := shards.quarantine).sha256:
            blocks = len(shards.quarantined)
            announce("quarantine", shards=str(shards.path), blocks=blocks, sha256=quarantine.sha256)
    before = {} if begin.saved is None else begin.saved.stream
    if before and before["data"] != state.stream["data"]:
        announce("new_phase", step=state.step, samples=state.samples, data=datasets.description)


def _build(config: TrainConfig, shards: ShardSet, placement: Placement = WHOLE) -> Model:
    """Build the model with its initial weights, a function of `seed` alone."""
    tokenizer, spellings = shards.manifest.tokenizer, spellings_of(config.model, shards)
    seed = keyed_hash("weights", config.seed)
    ids = tokenizer.special_ids
    return build_model(config.model, tokenizer.vocab_size, ids, spellings, seed=seed, placement=placement)


def _fill(
    model: Model, config: TrainConfig, begin: Begin, shards: ShardSet, placement: Placement = WHOLE
) -> tuple[list[str], str, list[str]]:
    """Copy the weights of `model.init_from`, and freeze.

    A run that resumes has its weights in the checkpoint, but for those of the model beside an adapter.
    """
    source, adapted = config.model.init_from, model.adapter_in_use
    if source is None or (begin.found is not None and adapted is None):
        return freeze(model, config.freeze), "", []
    other = compare_tokenizers(source, shards)
    filled = fill(model, source, placement, config.init_parts, other if adapted is None else None)
    base = "" if adapted is None else filled.digest
    if begin.saved is not None:
        refuse_other_base(source, begin.saved.base, base)
    if adapted is not None:
        seed = keyed_hash("weights", config.seed)
        model.adapters[adapted].initialize_from(model.family.tokens, model.vocab_size, seed, placement)
        freeze_base(model, [name for name in filled.fresh if name.startswith("heads.")])
    said = [] if other is None else [other.line()]
    return [*filled.lines(), *freeze(model, config.freeze), *said], base, filled.fresh
