"""Show the progress of a run and its events: a live bar on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from clozeline.command import LOG_COLUMNS, Detail, wrap_log
from clozeline.configuration.redaction import redact_text
from clozeline.report.charts import short
from clozeline.reporting import Reporting
from clozeline.terminal import Terminal, time_left
from clozeline.train.logs.journal import Journal
from clozeline.train.logs.spikes import WATCHED

_BAR_COLUMNS: Final = 6
"""Columns of the live bar."""
_SILENT_EVENTS: Final = {
    "start": "{steps:,} steps on {shape[world_size]} × {shape[device]}, "
    "ZeRO stage {shape[zero_stage]}",
    "resume": "from {checkpoint}",
    "save": "{checkpoint}",
    "save_waited": "waited {seconds:.1f} s for the previous save",
    "stop": "{reason}; the same command continues",
    "done": "all of it",
    "failed": "exit code {exit_code}: {error}",
}
"""Events that are not printed, or that the caller prints."""
_PRINTED_EVENTS: Final = {
    "lost": "the previous start was killed, or ended by the watchdog ({process})",
    "nothing_saved": "the previous start did {steps:,} steps, but no checkpoint is there: "
    "the run starts again at step 1, and its metrics are removed",
    "records_lost": "metrics.jsonl has no record of steps {first:,} to {last:,}: "
    "the curves do not show them",
    "latest_ignored": "checkpoints/latest does not say what to resume from: {reason}; "
    "the newest valid checkpoint is used",
    "tokenizer_refused": "the run has no copy of its tokenizer: {reason}; then start the run again",
    "not_compiled": "torch.compile failed, training continues uncompiled; "
    "compile=true shows the error: {reason}",
    "new_phase": "the data changed since the checkpoint: after {samples:,} samples "
    "the run reads {data}",
    "new_heldout": "the held-out sets changed since the checkpoint: "
    "losses on the earlier ones are not compared any more",
    "phase": "phase {phase} of the data begins: {shares}, {global_batch:,} rows per step",
    "mixed": "of the rows read, {shares}; asked: {asked}",
    "skipped_block": "{shards}: {shard}, block {block} cannot be read; empty rows replace its rows",
    "data_starved": "training waited for data in {waited_share:.0%} of the last {steps} steps: "
    "raise data.io_threads or data.prefetch_blocks, or move the shards to faster storage",
    "averaging": "the held-out loss no longer falls: "
    "from now on the mean of the weights is evaluated",
    "save_failed": "no checkpoint was saved: {error}; training continues",
    "score_failed": "the held-out loss was not added to the checkpoint: {error}; "
    "training continues",
    "checkpoint_refused": "checkpoint {checkpoint} is not used: {reason}",
    "skip": "the gradient is not finite; this step updated nothing",
    "rollback": "{reason}: rollback {number} to {checkpoint}; the {rows:,} rows since then {then}",
    "profile": "profile of {steps} steps: {trace} opens in Perfetto or chrome://tracing",
    "profile_failed": "no trace of the profile: {error}; training continues",
}
_HIDDEN_FIELDS: Final = ("event", "step", "time", "versions", "rows_source_block_row", "checksum")


class Display:
    """Prints the progress of a run in lines of at most 80 columns; only rank 0 prints.

    Lines of steps are at least `seconds` apart. `verbose` prints one for each record, `quiet`
    nothing.
    """

    def __init__(
        self,
        steps: int,
        rank: int,
        seconds: float = 10.0,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        detail: Detail = "usual",
    ) -> None:
        quiet = rank > 0 or detail == "quiet"
        self.console = console or Terminal(
            quiet=quiet, highlight=False, markup=False, soft_wrap=True
        )
        self._reports = Reporting()
        self._steps = steps
        self._seconds = 0.0 if detail == "verbose" else seconds
        self._clock = clock

        # what was shown
        self._first: tuple[int, float] | None = None
        """Step and time of the first record."""
        self._last = (0, 0.0)
        """Tokens and time of the last line."""

        self.seconds_left: float | None = None
        """Estimate at the last record; None before the second one of a start."""

        # the live bar, on a terminal
        self._bar: Progress | None = None

        if self.console.is_terminal and detail == "usual" and rank == 0:
            texts = (TextColumn("{task.fields[shown]}"), TextColumn("{task.fields[left]}"))
            columns = (BarColumn(_BAR_COLUMNS), MofNCompleteColumn(), *texts)
            self._bar = Progress(*columns, console=self.console)
            self._task = self._bar.add_task("training", total=steps, shown="", left="")

    def __enter__(self) -> Display:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def rewind(self) -> None:
        """Estimate the time left anew, after a return to an earlier step."""
        self._first = None

    def say(self, text: str) -> None:
        """Print a message above the live bar."""
        with self._reports("standard output"):
            self.console.print(wrap_log(redact_text(text)))

    def step(self, record: Mapping[str, Any]) -> None:
        """Show the record of a step: in the live bar, or as a line if one is due."""
        with self._reports("lines of steps"):
            self._show(record)

    def _show(self, record: Mapping[str, Any]) -> None:
        step = record["step"]
        now = self._clock()
        first = self._first
        speed = record["tokens_per_s"]
        left = ""

        # estimate the time left
        if first is None:
            self._first = (step, now)
        elif step < self._steps:
            seconds = (now - first[1]) / (step - first[0])
            self.seconds_left = seconds * (self._steps - step)
            left = time_left(self.seconds_left)

        # update the bar, or print a line
        if self._bar is not None:
            self._bar.update(self._task, completed=step, shown=summary(record, speed), left=left)
            return

        if first is not None:
            if step < self._steps and now - self._last[1] < self._seconds:
                return
            speed = (record["tokens"] - self._last[0]) / max(now - self._last[1], 1e-9)

        self._last = (record["tokens"], now)
        line = "  ".join(filter(None, [f"step {step}/{self._steps}", summary(record, speed), left]))
        self.say(line if len(line) <= LOG_COLUMNS else line.replace("  ", " "))

    def heldout(self, step: int, heldout: Mapping[str, Any]) -> None:
        """Show the results on the held-out sets."""
        for name, evaluation in heldout.items():
            further = evaluation.get("figures", {})
            figures = "".join(f", {key} {share:.4f}" for key, share in further.items())
            value = evaluation["unigram_entropy"]
            entropy = f", unigram entropy {value:.4f}" if value else ""
            losses = f"loss {evaluation['loss']:.4f}{entropy} nats over {format_count(evaluation)}"
            self.say(f"  {heldout_title(name)} at step {step}: {losses}{figures}")


def format_count(evaluation: Mapping[str, Any]) -> str:
    """Return the number of predictions of an evaluation with their unit: `256 rows`."""
    return f"{evaluation['labels']:,} {evaluation.get('unit', 'labels')}"


def heldout_title(name: str) -> str:
    """Return the title of a held-out set: "held-out", and its name if it has one."""
    return "held-out" if name == "heldout" else f"held-out {name}"


def summary(record: Mapping[str, Any], tokens_per_s: float) -> str:
    """Return a step's record in one line."""
    parts = [
        f"loss {record['loss']:.4f}",
        f"lr {record['learning_rate']:.2e}",
        f"norm {record['gradient_norm']:.2f}",
    ]
    parts.append(f"{short(round(tokens_per_s))} tok/s")
    if record["skipped"]:
        parts.append(f"{record['skipped']} skipped")
    return "  ".join(parts)


def announcer(journal: Journal, display: Display) -> Callable[..., None]:
    """Return a function that writes an event, and prints the important ones."""
    reports = Reporting()

    def announce(event: str, **fields: object) -> None:
        with reports("events"):
            journal.event(event, **fields)
            if event == "save":
                journal.status("running", checkpoint=fields["checkpoint"])
            elif event in _PRINTED_EVENTS or event == "spike":
                step = f"step {fields['step']}: " if fields.get("step") else ""
                display.say(f"{step}{describe_event({'event': event, **fields})}")

    return announce


def describe_event(event: Mapping[str, Any]) -> str:
    """Return an event as a sentence; without a sentence, or without its fields, list its fields."""
    try:
        # events with several numbers
        name = event["event"]
        if name == "data":
            return "; ".join(
                f"phase {phase['phase']} reads {_shares(phase)}, {phase['global_batch']:,} rows "
                "per step"
                for phase in event["phases"]
            )
        if name == "spike":
            unusual = ", ".join(
                f"{key.replace('_', ' ')} {event[key]['value']:.4g} (usually "
                f"{event[key]['median']:.4g})"
                for key in WATCHED
                if key in event
            )
            return f"unusual step: {unusual}; to see its texts:\n  {event['command']}"

        # events with a sentence
        shares = {"shares": _shares(event)} if "shares" in event else {}
        sentence = _PRINTED_EVENTS.get(name) or _SILENT_EVENTS[name]
        return sentence.format_map({**event, **shares})
    except (
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        AttributeError,
    ):  # a damaged event may have any content
        return ", ".join(
            f"{key} {value}" for key, value in event.items() if key not in _HIDDEN_FIELDS
        )


def _shares(phase: Mapping[str, Any]) -> str:
    return ", ".join(f"{share:.1%} {name}" for name, share in phase["shares"].items())
