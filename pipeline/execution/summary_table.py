"""Table at the end of a run: input, output, and what was dropped for which reason."""

from collections.abc import Sequence

from rich.table import Table

from clozeline.command import Terminal
from clozeline.pipeline.execution.stages import Row, StageSummary, amount

HEADER = ("stage", "in", "out", "left out, by reason", "bytes", "seconds")


def accounting_rows(summaries: Sequence[StageSummary]) -> list[tuple[str, str, str, str, str, str]]:
    """Return one row a stage, and one for each of its sets: name, in, out, reasons, bytes, seconds."""
    rows = []
    for summary in summaries:
        seconds = f"{summary.seconds:.1f}" + (" (earlier)" if summary.skipped else "")
        rows.append((summary.name, *_amounts(summary.row), f"{summary.bytes:,}", seconds))
        rows += [(f"  {label}", *_amounts(part), "", "") for label, part in summary.row.parts]
    return rows


def _amounts(row: Row) -> tuple[str, str, str]:
    """Return the amounts in and out, and the reasons that occurred, group by group, the most frequent first."""
    reasons = [
        f"{amount(count, noun) if noun else f'{count:,}'} {reason}"
        for noun, group in row.left_out
        for reason, count in sorted(sorted(group.items()), key=lambda item: -item[1])
        if count
    ]
    return row.amount_in, row.amount_out, "\n".join(reasons) or "–"


def print_table(summaries: Sequence[StageSummary]) -> None:
    """Print the accounting table to standard output."""
    table = Table(title="What happened to every document", title_justify="left")
    for name in HEADER:
        table.add_column(name, justify="right" if name in ("in", "out", "bytes", "seconds") else "left")
    for row in accounting_rows(summaries):
        table.add_row(*row)
    Terminal(width=None if Terminal().is_terminal else 120).print(table)
