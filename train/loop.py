"""The training loop: batch, step, evaluate, log, save, stop."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from train.agreement import Source, take_turn
from train.checkpoint import Checkpoints, TrainState
from train.config import TrainConfig
from train.distributed import World
from train.engine import Engine, MicroBatch
from train.errors import DivergedError
from train.evaluate import HeldoutSet, evaluate
from train.record import Recorder
from train.stopping import StopRequest
from train.watchdog import Watchdog

__all__ = ["Run", "train"]


@dataclass(frozen=True)
class Run:
    """The parts of a run, ready to go."""

    config: TrainConfig
    world: World
    engine: Engine
    stream: Source[MicroBatch]
    heldout: Sequence[HeldoutSet]
    checkpoints: Checkpoints
    recorder: Recorder
    watchdog: Watchdog
    stop: StopRequest


def train(run: Run, state: TrainState) -> TrainState:
    """Train from `state` to `steps`, or until somebody asks to stop; the state returned has been saved."""
    config, engine, recorder = run.config, run.engine, run.recorder
    schedule = config.schedule.build(config.schedule.options.steps)
    stopped = False
    while state.step < config.steps and not stopped:
        began = time.perf_counter()
        turn = take_turn(run.stream, engine.heads, run.world, stop=run.stop.wanted())
        fetched = time.perf_counter()
        step, stopped = state.step + 1, turn.stop
        rate = config.optimizer.options.learning_rate * schedule(step)
        result = engine.step(turn.batches, turn.counts, step, rate)
        seconds = (fetched - began, time.perf_counter() - fetched)
        run.watchdog.beat()
        rows = len(turn.batches) * config.data.micro_batch * run.world.size
        state = state.advanced(rows=rows, tokens=turn.tokens, skipped=result.skipped)
        last = stopped or step == config.steps
        record = recorder.measure(state, turn, result, rate, seconds, log=last or _due(step, config.log.every))
        if record is not None and (stats := getattr(run.stream, "stats", None)):
            record["stream"] = {**stats(), "waited_share": seconds[0] / max(sum(seconds), 1e-9)}
        if _due(step, config.evaluate.every) or (step == config.steps and not stopped):
            found = {heldout.name: evaluate(engine, heldout, run.watchdog) for heldout in run.heldout}
            state = replace(state, heldout_loss=next((result.loss for result in found.values()), None))
            record = recorder.add_heldout(record, state, found)
        recorder.write(record)
        if last or _due(step, config.checkpoint.every):
            while not run.checkpoints.save(engine, state) and last:
                run.watchdog.beat()  # the end must be saved: it works, or `max_failures` in a row end the run
            run.watchdog.beat()
        if state.skipped_in_a_row >= config.max_consecutive_skips:
            raise DivergedError(
                f"step {step}: {state.skipped_in_a_row} gradients in a row were not finite (max_consecutive_skips): "
                "lower optimizer.learning_rate or lengthen schedule.warmup; events.jsonl names the rows of each step"
            )
    return state


def _due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
