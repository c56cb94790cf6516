"""Progress of a run for people: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pipeline.configuration.redaction import redacted_text

__all__ = ["Display", "heldout_title", "summary"]

_LINES = 20
"""Plain lines in a whole run, about."""


class Display:
    """Progress of a run; silent on ranks above 0."""

    def __init__(self, steps: int, rank: int, console: Console | None = None) -> None:
        self.console = console or Console(quiet=rank > 0, highlight=False, markup=False, soft_wrap=True)
        self._steps = steps
        self._every = max(1, -(-steps // _LINES))
        self._bar: Progress | None = None
        if self.console.is_terminal and rank == 0:
            self._bar = Progress(
                TextColumn("training"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[shown]}"),
                TimeRemainingColumn(),
                console=self.console,
            )
            self._task = self._bar.add_task("training", total=steps, shown="")

    def __enter__(self) -> Display:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self.console.print(redacted_text(text))

    def step(self, record: Mapping[str, Any]) -> None:
        """Show a step's record."""
        step = record["step"]
        if self._bar is not None:
            self._bar.update(self._task, completed=step, shown=summary(record))
        elif step % self._every == 0 or step in (1, self._steps):
            self.say(f"step {step}/{self._steps}  {summary(record)}")

    def heldout(self, step: int, heldout: Mapping[str, Any]) -> None:
        """Show the results on the held-out sets."""
        for name, evaluation in heldout.items():
            entropy = evaluation["unigram_entropy"]
            figures = "".join(f", {key} {share:.4f}" for key, share in evaluation.get("figures", {}).items())
            self.say(
                f"  {heldout_title(name)} at step {step}: loss {evaluation['loss']:.4f}"
                f"{f', unigram entropy {entropy:.4f}' if entropy else ''} nats over {evaluation['labels']} labels"
                f"{figures}"
            )


def heldout_title(name: str) -> str:
    """Return the title of a held-out set: held-out, followed by its name if it has one."""
    return "held-out" if name == "heldout" else f"held-out {name}"


def summary(record: Mapping[str, Any]) -> str:
    """Return the figures of a step in one line."""
    parts = [f"loss {record['loss']:.4f}", f"lr {record['learning_rate']:.2e}", f"norm {record['gradient_norm']:.2f}"]
    parts.append(f"{record['tokens_per_s']:,.0f} tokens/s")
    if record["skipped"]:
        parts.append(f"{record['skipped']} skipped")
    return "  ".join(parts)
