"""One record a step: sums over ranks turned into figures, and handed to the journal and the display."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from train import partitions
from train.agreement import Turn
from train.checkpoint import TrainState
from train.engine import Engine, MicroBatch, StepResult
from train.evaluate import Evaluation
from train.metrics import Journal, resident_bytes
from train.progress import Display

__all__ = ["Recorder", "announcer", "memory_by_rank"]

_ROWS_NAMED: Final = 64
"""Rows of a skipped step that its event names, at most, on each rank."""


class Recorder:
    """Turns a step into a record on all ranks; rank 0's journal and display show it."""

    def __init__(self, engine: Engine, journal: Journal, display: Display) -> None:
        self.journal = journal
        self.display = display
        self._engine = engine
        self._measured = False

    def measure(
        self,
        state: TrainState,
        turn: Turn[MicroBatch],
        result: StepResult,
        learning_rate: float,
        seconds: tuple[float, float],
        *,
        log: bool,
    ) -> dict[str, Any] | None:
        """The record of a step, or None where none is wanted: summing losses over ranks costs a collective.

        Args:
            state: after the step.
            turn: the global batch.
            result: what the engine did with it.
            learning_rate: the step's rate.
            seconds: spent on waiting for data and on computing.
            log: whether a record is wanted.
        """
        if result.skipped:
            self._skipped(state, turn)
        if not self._measured:
            self._measured = True
            self.journal.event("memory", step=state.step, ranks=memory_by_rank(self._engine))
        if not log:
            return None
        config = self._engine.config
        totals = self._engine.world.total([float(total) for total in result.sums.values()])
        counts = turn.counts
        losses = {
            head: total / counts[head] if counts[head] else 0.0 for head, total in zip(result.sums, totals, strict=True)
        }
        waited, computed = seconds
        return {
            "step": state.step,
            "samples": state.samples,
            "epoch": getattr(turn.batches[-1], "epoch", 0.0),
            "time": time.time(),
            "loss": sum(weight * losses[head] for head, weight in config.model.heads.items()),
            "losses": losses,
            "learning_rate": learning_rate,
            "gradient_norm": result.gradient_norm,
            "skipped": state.skipped,
            "tokens": state.tokens,
            "labels": {head: int(count) for head, count in counts.items()},
            "tokens_per_s": turn.tokens / (waited + computed),
            "samples_per_s": len(turn.batches)
            * config.data.micro_batch
            * self._engine.world.size
            / (waited + computed),
            "step_ms": {"data": waited * 1e3, "compute": computed * 1e3},
            "memory_bytes": resident_bytes(),
        }

    def add_heldout(
        self, record: dict[str, Any] | None, state: TrainState, found: Mapping[str, Evaluation]
    ) -> dict[str, Any] | None:
        """The record with the results on the held-out sets; a step without a record gets a short one."""
        if not found:
            return record
        heldout = {name: asdict(evaluation) for name, evaluation in found.items()}
        return {**(record or {"step": state.step, "samples": state.samples}), "heldout": heldout}

    def write(self, record: Mapping[str, Any] | None) -> None:
        """Write and show a record."""
        if record is None:
            return
        self.journal.step(record)
        self.display.step(record)
        figures = {key: record[key] for key in ("step", "samples", "loss", "heldout") if key in record}
        self.journal.status("running", steps=self._engine.config.steps, **figures)

    def _skipped(self, state: TrainState, turn: Turn[MicroBatch]) -> None:
        """Name the rows of a step whose gradient was not finite, over all ranks."""
        mine: list[list[int]] = []
        for batch in turn.batches:
            origin = getattr(batch, "origin", None)
            if origin is not None:
                mine += origin.tolist()
        rows = [row for found in self._engine.world.gather(mine[:_ROWS_NAMED]) for row in found]
        self.journal.event("skip", step=state.step, in_a_row=state.skipped_in_a_row, rows_source_block_row=rows)
        self.display.say(f"step {state.step}: the gradient is not finite, nothing was updated")


def announcer(journal: Journal, display: Display) -> Callable[..., None]:
    """A function that writes an event, and shows those that a person should know of."""

    def announce(event: str, **fields: Any) -> None:
        journal.event(event, **fields)
        if event == "save":
            journal.status("running", checkpoint=fields["checkpoint"])
        elif event == "save_failed":
            display.say(f"step {fields['step']}: no checkpoint: {fields['error']}; training goes on")
        elif event == "checkpoint_refused":
            display.say(f"checkpoint {fields['checkpoint']} is passed over: {fields['reason']}")

    return announce


def memory_by_rank(engine: Engine) -> list[dict[str, int]]:
    """Bytes on each rank: resident, and counted for weights, gradients and optimizer."""
    return engine.world.gather({"resident": resident_bytes(), **partitions.memory(engine)})
