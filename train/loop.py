"""The training loop: batch, step, log, save, evaluate, stop."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from clozeline.errors import DivergedError
from clozeline.train.checkpoint.checkpoints import Checkpoints, load
from clozeline.train.checkpoint.save_pace import SavePace
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.global_batch import MicroBatch, MovableSource, next_batch_of_tokens
from clozeline.train.distributed.process_group import World
from clozeline.train.distributed.stopping import StopRequest
from clozeline.train.distributed.watchdog import Watchdog
from clozeline.train.engine import Engine
from clozeline.train.evaluate import Evaluation, HeldoutSet, evaluate
from clozeline.train.logs.profiling import Profiler
from clozeline.train.logs.recorder import Recorder
from clozeline.train.optim.early_stopping import metric_value, should_stop, update_best


@dataclass(frozen=True)
class TrainingJob:
    """Everything that training needs, built and opened."""

    config: TrainConfig
    world: World
    engine: Engine
    stream: MovableSource[MicroBatch]
    heldout: Sequence[HeldoutSet]
    checkpoints: Checkpoints
    recorder: Recorder
    watchdog: Watchdog
    stop: StopRequest
    pace: SavePace
    profiler: Profiler | None = None

    @cached_property
    def schedule(self) -> Callable[[int], float]:
        """Multiplier of the peak learning rate by step, counted from 1."""
        schedule: Callable[[int], float] = self.config.schedule.build(
            self.config.schedule.options.steps
        )
        return schedule

    def is_evaluation_due(self, state: TrainState) -> bool:
        """Return whether an evaluation is due at this step and missing; a resumed run makes up for it."""
        due = state.step == self.config.last_step or _due(state.step, self.config.evaluate.every)
        return due and state.step > 0 and state.heldout_loss is None and bool(self.heldout)

    def is_save_due(self, state: TrainState, tokens: int) -> bool:
        """Return whether a save is due at this step."""
        config = self.config.checkpoint
        evaluated = self.config.early_stop is not None and _due(
            state.step, self.config.evaluate.every
        )
        passed = any(tokens < limit <= state.tokens for limit in config.milestones)
        by_step = config.every != "auto" and _due(state.step, config.every)
        # by time: not while a divergence may go on, of which checkpoints would then be
        diverges = self.config.on_divergence is not None and (
            state.skipped_in_a_row or self.recorder.spiking
        )
        return evaluated or passed or by_step or (self.pace.is_agreed and not diverges)

    def find_divergence(self, state: TrainState) -> tuple[int, str] | None:
        """Return the steps and the reason of a divergence that ends at this step; None without one."""
        if (skips := state.skipped_in_a_row) >= self.config.max_consecutive_skips:
            return skips, f"{skips} gradients in a row were not finite (max_consecutive_skips)"
        bar = None if self.config.on_divergence is None else self.config.on_divergence.spikes
        if bar is not None and (spikes := self.recorder.spiking) >= bar:
            return (
                spikes * self.config.log.every,
                f"{spikes} records in a row had a spike of the loss (on_divergence.spikes)",
            )
        return None

    def add_scores(self, state: TrainState, evaluations: Mapping[str, Evaluation]) -> TrainState:
        """Return the state with the held-out results of its step.

        Optimizer and early stopping ignore the extra evaluation at the end of a run: with more
        `steps` it would not have happened.
        """
        loss = next(iter(evaluations.values())).loss
        early = self.config.early_stop
        scored = replace(state, heldout_loss=loss)
        if not _due(state.step, self.config.evaluate.every):
            return scored
        if self.config.optimizer.type.needs_heldout_losses:
            scored = replace(scored, heldout_losses=(*state.heldout_losses, loss))
        if early is None:
            return scored
        return replace(
            scored,
            best=update_best(
                early, state.best, metric_value(evaluations, early.metric), state.step
            ),
        )

    def is_complete(self, state: TrainState) -> bool:
        """Return whether the run is complete: all steps done or stopped early, and no evaluation due."""
        all_done = state.step >= self.config.last_step or should_stop(
            self.config.early_stop, state.best
        )
        return all_done and not self.is_evaluation_due(state)


def train(run: TrainingJob, state: TrainState) -> TrainState:
    """Train from `state` until the run is complete or a stop is requested; return the last state, which is saved.

    A step that is both saved and evaluated is saved first: a failed evaluation loses nothing. A
    step that only its held-out loss makes worth keeping is saved after its evaluation.
    """
    run.engine.observe_eval_losses(state.heldout_losses)
    if (
        run.config.on_divergence is not None
        and (divergence := run.find_divergence(state)) is not None
    ):
        with suppress(DivergedError):  # the last start was killed before it could return
            state = _roll_back(run, state, *divergence)
    saved = state.step
    stopped = False
    due = False
    while not stopped and not run.is_complete(state):
        # one step, or the evaluation that is due
        before = state
        state, stopped = (
            _evaluate(run, state) if run.is_evaluation_due(state) else _step(run, state)
        )
        if state.step > before.step:
            due = run.is_save_due(state, before.tokens)
        elif not stopped:
            due = due or run.checkpoints.is_best(state)
        # commit a checkpoint that was written in the background
        last = stopped or state.step == run.config.last_step or run.is_complete(state)
        if not (run.checkpoints.finish() if last else run.checkpoints.poll()):
            saved = -1  # the last save failed
        # save
        if saved < state.step and (last or due):
            wait = last or not run.config.checkpoint.asynchronous
            began = time.monotonic()
            while not (done := run.checkpoints.save(run.engine, state, wait=wait)) and last:
                run.watchdog.beat()  # retry the last save until it succeeds, or three failures in a row end the run
            saved = state.step if done else saved
            run.pace.note_save(time.monotonic() - began)
            if not last:  # the end of the run writes its own report
                run.recorder.saved()
            run.watchdog.beat()
        # return to a checkpoint, or give up on a run that diverged
        if (divergence := run.find_divergence(state)) is not None:
            state = _roll_back(run, state, *divergence)
            saved = state.step
    return state


def _roll_back(run: TrainingJob, state: TrainState, steps: int, reason: str) -> TrainState:
    """Return to a checkpoint from before a divergence of `steps` steps, and return its state; see `on_divergence`."""
    config = run.config.on_divergence
    found = None
    limit = 0 if config is None else config.max_rollbacks
    run.checkpoints.finish()
    if config is not None and state.rollbacks < limit:
        # from before the last good step: its own weights may be the cause; not those that were
        # returned to before
        returned = state.skipped_rows[-1].step if state.skipped_rows else -1
        found = run.checkpoints.find_earlier(max(state.step - steps, returned + 1), config.rollback)
    if config is None or found is None:
        remedy = "set on_divergence={} to go back to a checkpoint and skip the rows since then"
        if state.rollbacks >= limit > 0:
            remedy = f"{state.rollbacks} rollbacks did not help (on_divergence.max_rollbacks)"
        elif limit:
            remedy = "no checkpoint is from before it: lower checkpoint.every"
        raise DivergedError(
            f"step {state.step}: {reason}; {remedy}; or lower optimizer.learning_rate or lengthen "
            "schedule.warmup; "
            "events.jsonl names the rows of each step"
        )
    # the checkpoint first: from its new state on, the run has gone back
    before = state
    state = state.roll_back(found.state, skip_rows=config.skip_rows)
    run.recorder.roll_back(before, state, found.folder.name, reason)
    run.checkpoints.return_to(found, state)
    # then this process: engine, stream, records
    load(run.engine, found)
    run.stream.set_position(state.samples)
    if run.profiler is not None:
        run.profiler.close()
    run.recorder.rewind(state)
    run.watchdog.beat()
    return state


def _step(run: TrainingJob, state: TrainState) -> tuple[TrainState, bool]:
    """Do one optimizer step; return the new state, or the same state and True if a stop was requested."""
    # load the global batch; all ranks agree here whether to stop
    config = run.config
    engine = run.engine
    profiler = run.profiler
    if profiler is not None:
        profiler.begin(state.step + 1)
    began = time.perf_counter()
    worked = time.process_time()
    batch = next_batch_of_tokens(
        run.stream,
        engine.divisors,
        run.world,
        run.stop,
        config.data.batch_tokens,
        save=run.pace.is_due(),
    )
    if batch.stop:
        return state, True
    run.pace.is_agreed = batch.save
    # update the weights
    step = state.step + 1
    peak = config.data.learning_rate_at(state.samples) or config.optimizer.options.learning_rate
    rate = peak * run.schedule(step)
    log = step == config.last_step or _due(step, config.log.every)
    result = engine.step(
        batch.micro_batches, batch.counts, step, rate, weight=batch.weight, observe=log
    )
    seconds = time.perf_counter() - began
    cpu_seconds = time.process_time() - worked
    # advance the state and record the step
    run.watchdog.beat()
    rows = len(batch.micro_batches) * config.data.micro_batch * run.world.size
    state = state.advance(rows=rows, tokens=batch.tokens, skipped=result.skipped)
    for hook in engine.hooks:
        state = replace(state, **hook.in_state)
    run.recorder.step(state, batch, result, rate, seconds, cpu_seconds, log=log)
    if profiler is not None:
        profiler.end(step)
    return state, False


def _evaluate(run: TrainingJob, state: TrainState) -> tuple[TrainState, bool]:
    """Evaluate; return the state with its held-out loss, or the same state and True if a stop was requested."""
    evaluations = {}
    for heldout in run.heldout:
        evaluation = evaluate(run.engine, heldout, run.watchdog, run.stop)
        if evaluation is None:
            return state, True
        evaluations[heldout.name] = evaluation
    state = run.add_scores(state, evaluations)
    run.recorder.heldout(
        state, evaluations, {heldout.name: heldout.guesses for heldout in run.heldout}
    )
    if run.engine.observe_eval_losses(state.heldout_losses):
        run.recorder.averaging(state)
    run.checkpoints.score(
        state
    )  # last: a resumed run that finds the loss there does not evaluate again
    return state, False


def _due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
