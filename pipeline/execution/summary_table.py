"""The table at the end of a run: what came in, what was kept, what was left out and why."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from pipeline.execution.runner import StageSummary

__all__ = ["HEADER", "accounting_rows", "print_table"]

HEADER = ("stage", "in", "out", "left out, by reason", "bytes", "seconds")

_IN = ("documents_in", "samples_in", "tokens_in")
_OUT = ("documents_out", "examples", "samples")
_REASONS = ("rejected", "skipped", "malformed", "ignored", "notes", "tokens_dropped")


def accounting_rows(summaries: Sequence[StageSummary]) -> list[tuple[str, str, str, str, str, str]]:
    """One row a stage: in, out, reasons, bytes, seconds."""
    rows = []
    for summary in summaries:
        reasons = [
            f"{count:,} {reason}"
            for group in _REASONS
            for reason, count in sorted(_leaves(summary.counts.get(group, {})).items(), key=lambda item: -item[1])
            if count
        ]
        seconds = f"{summary.seconds:.1f}" + (" (earlier)" if summary.skipped else "")
        rows.append(
            (
                summary.name,
                _amount(summary, _IN),
                _amount(summary, _OUT) + _tokens(summary),
                "\n".join(reasons) or "–",
                f"{summary.bytes:,}",
                seconds,
            )
        )
    return rows


def _leaves(group: dict[str, object], prefix: str = "") -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in group.items():
        if isinstance(value, dict):
            found.update(_leaves(value, f"{prefix}{name}: "))
        elif isinstance(value, int):
            found[f"{prefix}{name}"] = value
    return found


def _amount(summary: StageSummary, names: Sequence[str]) -> str:
    for name in names:
        value = summary.counts.get(name)
        if isinstance(value, int):
            noun = name.split("_")[0]
            return f"{value:,} {noun.removesuffix('s') if value == 1 else noun}"
    return "–"


def _tokens(summary: StageSummary) -> str:
    tokens = summary.counts.get("tokens_out", summary.counts.get("tokens"))
    return f"\n{tokens:,} tokens" if isinstance(tokens, int) else ""


def print_table(summaries: Sequence[StageSummary]) -> None:
    """Print the accounting table to standard output."""
    table = Table(title="What happened to every document", title_justify="left")
    for name in HEADER:
        table.add_column(name, justify="right" if name in ("in", "out", "bytes", "seconds") else "left")
    for row in accounting_rows(summaries):
        table.add_row(*row)
    Console(width=None if Console().is_terminal else 120).print(table)
