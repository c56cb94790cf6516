"""Record steps and evaluations: sum metrics over ranks, then write and show them."""

import math
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import torch

from clozeline.errors import STOPPED
from clozeline.memory import resident_bytes
from clozeline.reporting import Reporting
from clozeline.train.checkpoint import zero_partitions as partitions
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.data.global_batch import GlobalBatch, MicroBatch, shares
from clozeline.train.engine import Engine, StepResult
from clozeline.train.evaluate import Evaluation, Guesses
from clozeline.train.logs.cost_estimate import CostEstimate
from clozeline.train.logs.data_health import LoadingHealth
from clozeline.train.logs.display import Display, announcer
from clozeline.train.logs.journal import Journal
from clozeline.train.logs.json_lines import last_lines
from clozeline.train.logs.report import closing_lines, write_report
from clozeline.train.logs.spikes import Spikes

_IN_STATUS: Final = ("step", "samples", "loss", "learning_rate", "tokens_per_s", "device_bytes")
"""Values of a record that status.json has, too; `device_bytes` only of an accelerator."""
_MAX_LISTED_ROWS: Final = 64
"""Most rows per rank that the event of a skipped step or spike lists."""


class Recorder:
    """Records each step over all ranks; rank 0 writes and shows the records."""

    def __init__(
        self,
        engine: Engine,
        health: LoadingHealth,
        journal: Journal,
        display: Display,
        cost: CostEstimate,
        peak: float,
    ) -> None:
        self._engine = engine
        self._health = health
        self._journal = journal
        self._display = display
        self._announce = announcer(journal, display)
        self._cost = cost
        self._peak = peak
        self._ended: float | None = None
        """Time at which the last step or evaluation ended."""
        self._skipped_blocks = 0.0
        self._reports = Reporting()
        self._page_due = -math.inf
        """Earliest time of the next report.html: writing it takes at most 1 % of the time."""
        self._spikes: Spikes | None = None
        self._read_spikes()

    def _read_spikes(self) -> None:
        """Continue the detection of spikes from the records on disk."""
        if self._engine.world.rank == 0 and (bar := self._engine.config.log.spike) is not None:
            with self._reports("spikes of the loss"):
                lines = last_lines(self._journal.directory / "metrics.jsonl")
                self._spikes = Spikes(
                    bar, (line.record for line in lines if line.record is not None)
                )

    def record_data(self, state: TrainState) -> None:
        """Write an event with the phases of the data, and the rows that rollbacks skipped."""
        fields = {
            "phases": self._health.phases(),
            "plans": state.stream["data"],
            "skipped_rows": state.skipped_rows,
        }
        self._journal.event("data", step=state.step, samples=state.samples, **fields)

    def record_step(
        self,
        state: TrainState,
        batch: GlobalBatch[MicroBatch],
        result: StepResult,
        learning_rate: float,
        seconds: float,
        cpu_seconds: float,
        *,
        log: bool,
    ) -> None:
        """Record a step.

        Raises:
            IntegrityError: too many blocks of a set were skipped.
        """
        # time since the last step: records, saves
        ended = self._ended
        self._ended = time.perf_counter()
        between = 0.0 if ended is None else max(0.0, self._ended - seconds - ended)

        # every step: counters, data health, skipped gradients
        self._journal.count(steps=1, tokens=batch.tokens, skipped_steps=int(result.skipped))
        with self._reports("the health of the data"):
            self._health.observe_step(state.step, batch.waited, seconds)
        if result.skipped:
            self._record_skip(state, batch)
        if not log:
            return

        # logged steps: one collective for CPU time, losses, metrics and counters
        counters = self._health.training.stats()
        sums = {**result.sums, **result.figures}
        worked, *totals = self._engine.world.sum_over_ranks(
            [cpu_seconds, *sums.values(), *counters.values()]
        )
        # counters keep their types: blocks stay integers
        stream = {
            name: type(local)(total)
            for (name, local), total in zip(counters.items(), totals[len(sums) :], strict=True)
        }

        # the record, unless it cannot be made: training continues without it
        with self._reports("records of steps"):
            record = self._record(
                state, batch, result, dict(zip(sums, totals, strict=False)), seconds, between
            )
            record |= result.record

            with self._reports("spikes of the loss"):
                if not batch.is_short:  # a mean over few rows varies more
                    self._detect_spikes(record, self._rows(batch))

            health = {**stream, "waited_share": batch.waited / seconds}
            record |= {"cpu_s": worked, "learning_rate": learning_rate, "stream": health}
            self._journal.step(record)
            self._display.step(record)
            figures: dict[str, object] = {key: record[key] for key in _IN_STATUS if key in record}
            if (left := self._display.seconds_left) is not None:
                figures["estimated_end"] = time.time() + left
            figures["figures"] = {
                chart.label: value
                for hook in self._engine.hooks
                for chart in hook.charts
                if chart.headline
                for _, value in chart.points([record])
            }
            self._journal.progress(steps=self._engine.config.steps, **figures)

        if stream["skipped_blocks"] > self._skipped_blocks:
            self._skipped_blocks = stream["skipped_blocks"]
            self._health.announce_damage(state.step)

    def record_heldout(
        self,
        state: TrainState,
        evaluations: Mapping[str, Evaluation],
        guesses: Mapping[str, Guesses],
    ) -> None:
        """Record the results on the held-out sets; guesses become an event."""
        with self._reports("results on held-out sets"):
            heldout = {name: asdict(evaluation) for name, evaluation in evaluations.items()}
            record = {
                "step": state.step,
                "samples": state.samples,
                "time": self._journal.now(),
                "tokens": state.tokens,
            }

            record["flops"] = self._cost.flops_until(state.samples, state.skipped_rows)
            self._journal.step({**record, "heldout": heldout})
            self._journal.status("running", heldout=heldout)
            self._display.heldout(state.step, heldout)
            if any(guesses.values()):
                self._journal.event("guesses", step=state.step, sets=guesses)

        self._health.announce_damage(state.step)
        self._ended = time.perf_counter()

    def refresh_report(self) -> None:
        """Write report.html, to look at while the run trains."""
        began = time.monotonic()
        if self._engine.world.rank == 0 and began >= self._page_due:
            with self._reports("report.html"):
                write_report(self._engine.config)
            ended = time.monotonic()
            self._page_due = ended + 99.0 * (ended - began)

    def roll_back(
        self, before: TrainState, state: TrainState, checkpoint: str, reason: str
    ) -> None:
        """Announce a return to a checkpoint; status.json never names one that is removed."""
        rows = before.rows - state.rows
        then = "come again" if state.samples < before.samples else "are skipped"
        fields = {
            "checkpoint": checkpoint,
            "reason": reason,
            "rows": rows,
            "then": then,
            "number": state.rollbacks,
        }

        self._announce("rollback", step=before.step, **fields)
        position = {"step": state.step, "samples": state.samples, "rollbacks": state.rollbacks}
        self._journal.status("running", checkpoint=checkpoint, **position)

    def rewind(self, state: TrainState) -> None:
        """Remove the records after the state that the run has returned to."""
        self._ended = None
        self._display.rewind()
        with self._reports("records of a rollback"):
            self._journal.rewind(state.step, evaluated=state.heldout_loss is not None)
            self.record_data(state)
        self._read_spikes()

    def announce_averaging(self, state: TrainState) -> None:
        """Announce that the optimizer starts to average the weights."""
        self._announce("averaging", step=state.step)

    def finish(self, state: TrainState, complete: bool, asked: str | None) -> int:
        """Record how the run ended, and return its exit code: 0 if it is complete, else 75.

        `asked` is the signal or reason of a stop request on this rank.
        """
        config = self._engine.config
        code = 0 if complete else STOPPED
        reason = None if complete else asked or "asked on another rank"

        # events and status
        self._health.announce_shares(state.step)
        self._journal.event("memory", step=state.step, ranks=memory_by_rank(self._engine))

        self._journal.event(
            "done" if complete else "stop", step=state.step, reason=reason, exit_code=code
        )
        self._journal.status("done" if complete else "stopped", step=state.step, exit_code=code)

        # closing lines and report.html
        if self._engine.world.rank == 0:
            with self._reports("closing lines"):
                for line in closing_lines(config, state, reason):
                    self._display.say(line)
            with self._reports("report.html"):
                self._display.say(f"report {write_report(config)}")

        return code

    def _record(
        self,
        state: TrainState,
        batch: GlobalBatch[MicroBatch],
        result: StepResult,
        totals: Mapping[str, float],
        seconds: float,
        between: float,
    ) -> dict[str, object]:
        # means over all ranks
        config = self._engine.config
        counts = batch.counts
        means = shares(totals, counts)
        losses = {head: means[head] for head in result.sums}

        # throughput
        rows = self._rows(batch)
        flops = self._cost.flops_until(state.samples, state.skipped_rows)
        parts = {"data": batch.waited, "step": max(0.0, seconds - batch.waited), "between": between}
        seconds += between
        flops_before = self._cost.flops_until(state.samples - rows, state.skipped_rows)
        flops_per_second = (flops - flops_before) / seconds

        # entries that not every record has
        further: dict[str, object] = {}
        if result.figures:
            further["figures"] = {name: means[name] for name in result.figures}
        device = self._engine.world.device
        on_device = (
            {"device_bytes": torch.cuda.max_memory_allocated(device)}
            if device.type == "cuda"
            else {}
        )

        return {
            "step": state.step,
            "samples": state.samples,
            "epoch": batch.micro_batches[-1].epoch,
            "time": self._journal.now(),
            "loss": sum(
                weight * losses[head] for head, weight in config.model.head_weights.items()
            ),
            "total": self._engine.total_loss(losses),
            "losses": losses,
            **further,
            "gradient_norm": result.gradient_norm,
            "skipped": state.skipped,
            "tokens": state.tokens,
            "flops": flops,
            "labels": {head: int(count) for head, count in counts.items()},
            "tokens_per_s": batch.tokens / seconds,
            "padded_tokens_per_s": batch.padded_tokens / seconds,
            "samples_per_s": rows / seconds,
            "mfu": flops_per_second / (self._peak * self._engine.world.size),
            "step_ms": {part: 1e3 * duration for part, duration in parts.items()},
            "memory_bytes": resident_bytes(),
            **on_device,
        }

    def _rows(self, batch: GlobalBatch[MicroBatch]) -> int:
        return (
            len(batch.micro_batches)
            * self._engine.config.data.micro_batch
            * self._engine.world.size
        )

    def _detect_spikes(self, record: Mapping[str, Any], rows: int) -> None:
        """Announce a spike of the loss or gradient norm, with its rows."""
        spikes = {} if self._spikes is None else self._spikes.detect(record)
        if not spikes:
            return
        step = record["step"]
        config = self._engine.config
        rows_of_step = self._health.origins(record["samples"] - rows, rows)[:_MAX_LISTED_ROWS]
        command = f"clozeline explain-batch run={shlex.quote(str(config.output))} step={step}"
        self._announce(
            "spike", step=step, **spikes, command=command, rows_source_block_row=rows_of_step
        )

    def _record_skip(self, state: TrainState, batch: GlobalBatch[MicroBatch]) -> None:
        """Write an event with the rows of a step whose gradient was not finite, over all ranks."""
        mine = [row for micro_batch in batch.micro_batches for row in micro_batch.origin.tolist()]
        by_rank = self._engine.world.gather(mine[:_MAX_LISTED_ROWS])
        rows = [row for rank_rows in by_rank for row in rank_rows]
        self._announce(
            "skip", step=state.step, in_a_row=state.skipped_in_a_row, rows_source_block_row=rows
        )


def memory_by_rank(engine: Engine) -> list[dict[str, int]]:
    """Return the bytes of each rank: resident, weights, gradients, optimizer."""
    return engine.world.gather({"resident": resident_bytes(), **partitions.memory(engine)})
