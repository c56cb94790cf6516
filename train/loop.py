"""The training loop: batch, step, log, save, evaluate, stop."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from clozeline.errors import DivergedError
from clozeline.train.checkpoint.checkpoints import Checkpoints, load
from clozeline.train.checkpoint.save_pace import SavePace
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.global_batch import GlobalBatch, MicroBatch, next_batch_of_tokens
from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.process_group import World
from clozeline.train.distributed.stopping import StopRequest
from clozeline.train.distributed.watchdog import Watchdog
from clozeline.train.engine import Engine
from clozeline.train.evaluate import Evaluation, HeldoutSet, evaluate, has_finite_loss
from clozeline.train.logs.profiling import Profiler
from clozeline.train.logs.recorder import Recorder
from clozeline.train.optim.early_stopping import metric_value, should_stop, update_best


@dataclass(frozen=True)
class TrainingJob:
    """Everything that training needs, built and opened."""

    config: TrainConfig
    world: World
    engine: Engine
    stream: Stream
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
        """Return whether this step must still be evaluated, perhaps after a restart."""
        is_due = state.step == self.config.last_step or _is_due(
            state.step, self.config.evaluate.every
        )
        return is_due and state.step > 0 and state.heldout_loss is None and bool(self.heldout)

    def is_save_due(self, state: TrainState, tokens_before: int) -> bool:
        """Return whether this step must be saved; `tokens_before` were read before the step."""
        config = self.config.checkpoint
        is_evaluated = self.config.early_stop is not None and _is_due(
            state.step, self.config.evaluate.every
        )
        passes_milestone = any(tokens_before < limit <= state.tokens for limit in config.milestones)
        is_step_due = config.every != "auto" and _is_due(state.step, config.every)
        # not during what may be a divergence: the newest checkpoint is from before it
        is_regular_due = (is_step_due or self.pace.is_agreed) and not state.skipped_in_a_row
        return is_evaluated or passes_milestone or is_regular_due

    def add_scores(self, state: TrainState, evaluations: Mapping[str, Evaluation]) -> TrainState:
        """Return the state with the held-out results of its step.

        Optimizer and early stopping ignore the extra evaluation at the end of a run: with more
        `steps` it would not have happened.
        """
        loss = next(iter(evaluations.values())).loss
        early = self.config.early_stop
        scored = replace(state, heldout_loss=loss)
        if not _is_due(state.step, self.config.evaluate.every):
            return scored
        if self.config.optimizer.type.needs_heldout_losses:
            scored = replace(scored, heldout_losses=(*state.heldout_losses, loss))
        if early is None:
            return scored
        value = metric_value(evaluations, early.metric)
        return replace(scored, best=update_best(early, state.best, value, state.step))

    def is_complete(self, state: TrainState) -> bool:
        """Return whether all steps are done, or it stopped early, and no evaluation is due."""
        all_done = state.step >= self.config.last_step or should_stop(
            self.config.early_stop, state.best
        )
        return all_done and not self.is_evaluation_due(state)


def train(job: TrainingJob, state: TrainState) -> TrainState:
    """Train from `state` until the run is complete or asked to stop; return the last, saved state.

    A step that is both saved and evaluated is saved first: a failed evaluation loses nothing. If
    only its held-out loss makes a step worth keeping, it is saved after its evaluation. Weights
    that are not finite are never saved, and a run ends only with a finite loss.
    """
    job.engine.observe_eval_losses(state.heldout_losses)
    saved_step = state.step
    is_stopped = False
    is_save_due = False

    while not is_stopped and not job.is_complete(state):
        # one step, or the evaluation that is due
        previous = state
        work = _evaluate if job.is_evaluation_due(state) else _step
        state, is_stopped = work(job, state)

        if state.step > previous.step:
            is_save_due = job.is_save_due(state, previous.tokens)
        elif not is_stopped:
            is_save_due = is_save_due or job.checkpoints.is_best(state)

        # commit a checkpoint that was written in the background
        is_last = is_stopped or state.step == job.config.last_step or job.is_complete(state)
        if not (job.checkpoints.finish() if is_last else job.checkpoints.poll()):
            saved_step = -1  # the last save failed

        # return to a checkpoint, or give up on a run that diverged; else save
        is_due = saved_step < state.step and (is_last or is_save_due)
        if reason := _explain_divergence(job, state, is_due, is_due and is_last and not is_stopped):
            state = _roll_back(job, state, reason)
            saved_step = state.step
        elif is_due:
            saved_step = _save(job, state, saved_step, is_last=is_last)

    return state


def _explain_divergence(job: TrainingJob, state: TrainState, saves: bool, ends: bool) -> str:
    """Return why a run has diverged, or ""; all ranks agree.

    Weights are checked before a save, and at the end also losses, of as many batches as a run may
    skip.
    """
    skips = state.skipped_in_a_row
    most = job.config.max_consecutive_skips
    if skips >= most:
        return f"{skips} gradients in a row were not finite (max_consecutive_skips)"
    if saves and not job.engine.zero.has_finite_weights():
        return f"the weights are not finite numbers since step {state.step - skips}"
    if ends and not has_finite_loss(job.engine, job.stream, most):
        return f"no loss is a finite number since step {state.step - skips}"
    return ""


def _save(job: TrainingJob, state: TrainState, saved_step: int, *, is_last: bool) -> int:
    """Save the state; return the step that is saved now, `saved_step` if this save failed."""
    wait = is_last or not job.config.checkpoint.asynchronous
    began = time.monotonic()
    # retry the last save until it succeeds, or three failures in a row end the run
    while not (is_saved := job.checkpoints.save(job.engine, state, wait=wait)) and is_last:
        job.watchdog.beat()
    job.pace.note_save(time.monotonic() - began)
    if not is_last:  # the end of the run writes its report
        job.recorder.refresh_report()
    job.watchdog.beat()
    return state.step if is_saved else saved_step


def _roll_back(job: TrainingJob, state: TrainState, reason: str) -> TrainState:
    """Return to a checkpoint from before a divergence; see `on_divergence`.

    Raises:
        DivergedError: no rollback is configured or left, or no checkpoint is old enough.
    """
    # find a checkpoint from before the last good step, whose weights may be the cause, and none
    # that the run has returned to already
    config = job.config.on_divergence
    checkpoint = None
    limit = 0 if config is None else config.max_rollbacks
    skips = state.skipped_in_a_row
    job.checkpoints.finish()

    if config is not None and state.rollbacks < limit:
        returned = state.skipped_rows[-1].step if state.skipped_rows else -1
        newest = max(state.step - skips, returned + 1)
        checkpoint = job.checkpoints.find_earlier(newest, config.rollback)

    if config is None or checkpoint is None:
        remedy = "set on_divergence={} to go back to a checkpoint and skip the rows since then"
        if state.rollbacks >= limit > 0:
            remedy = f"{state.rollbacks} rollbacks did not help (on_divergence.max_rollbacks)"
        elif limit:
            remedy = "no checkpoint is from before it: lower checkpoint.every"
        raise DivergedError(
            f"step {state.step}: {reason}; {remedy}; or lower optimizer.learning_rate or lengthen "
            "schedule.warmup; events.jsonl names the rows of each step"
        )

    # the checkpoint first: once it holds the new state, the run has gone back
    diverged = state
    state = state.roll_back(checkpoint.state, skip_rows=config.skip_rows)
    job.recorder.roll_back(diverged, state, checkpoint.folder.name, reason)
    job.checkpoints.return_to(checkpoint, state)

    # then this process: engine, stream, records
    load(job.engine, checkpoint)
    job.stream.set_position(state.samples)
    if job.profiler is not None:
        job.profiler.close()
    job.recorder.rewind(state)
    job.watchdog.beat()
    return state


def _step(job: TrainingJob, state: TrainState) -> tuple[TrainState, bool]:
    """Do one optimizer step.

    Returns:
        the new state and False, or the same state and True if a stop was requested.
    """
    # load the global batch; all ranks agree here whether to stop
    config = job.config
    engine = job.engine
    profiler = job.profiler
    if profiler is not None:
        profiler.begin(state.step + 1)
    began = time.perf_counter()
    cpu_began = time.process_time()
    batch: GlobalBatch[MicroBatch] = next_batch_of_tokens(
        job.stream,
        engine.divisors,
        job.world,
        job.stop,
        config.data.batch_tokens,
        save=job.pace.is_due(),
    )
    if batch.stop:
        return state, True
    job.pace.is_agreed = batch.save

    # update the weights
    step = state.step + 1
    peak = config.data.learning_rate_at(state.samples) or config.optimizer.options.learning_rate
    rate = peak * job.schedule(step)
    is_logged = step == config.last_step or _is_due(step, config.log.every)
    result = engine.step(
        batch.micro_batches, batch.counts, step, rate, weight=batch.weight, observe=is_logged
    )
    seconds = time.perf_counter() - began
    cpu_seconds = time.process_time() - cpu_began

    # advance the state and record the step
    job.watchdog.beat()
    rows = len(batch.micro_batches) * config.data.micro_batch * job.world.size
    state = state.advance(rows=rows, tokens=batch.tokens, skipped=result.skipped)
    for hook in engine.hooks:
        state = state.with_added(hook.in_state)
    job.recorder.record_step(state, batch, result, rate, seconds, cpu_seconds, log=is_logged)
    if profiler is not None:
        profiler.end(step)
    return state, False


def _evaluate(job: TrainingJob, state: TrainState) -> tuple[TrainState, bool]:
    """Evaluate on each held-out set.

    Returns:
        the state with its held-out loss and False, or the same state and True if a stop was
        requested.
    """
    evaluations = {}

    for heldout in job.heldout:
        evaluation = evaluate(job.engine, heldout, job.watchdog, job.stop)
        if evaluation is None:
            return state, True
        evaluations[heldout.name] = evaluation

    state = job.add_scores(state, evaluations)
    guesses = {heldout.name: heldout.guesses for heldout in job.heldout}
    job.recorder.record_heldout(state, evaluations, guesses)
    if job.engine.observe_eval_losses(state.heldout_losses):
        job.recorder.announce_averaging(state)
    # last: a resumed run that finds the loss in the checkpoint does not evaluate again
    job.checkpoints.score(state)
    return state, False


def _is_due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
