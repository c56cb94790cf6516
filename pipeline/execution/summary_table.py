"""Table at the end of a run: input, output, and what was dropped for which reason."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from clozeline.command import LOG_COLUMNS
from clozeline.pipeline.execution.stages import Row, StageSummary
from clozeline.report.axis_units import duration, size_text
from clozeline.terminal import Terminal

_INDENT = "    "


def accounting_lines(summaries: Sequence[StageSummary]) -> list[str]:
    """Return the table in lines of at most 80 columns.

    A stage has its amounts in and out, time and bytes; below them the reasons for what is dropped, the most frequent
    first; below these the same of each of its sets. A name that is too long for its column has a line of its own.
    """
    rows: list[tuple[str, Row, str, str]] = []
    for summary in summaries:
        name = f"{summary.name} (earlier)" if summary.skipped else summary.name
        rows.append((name, summary.row, duration(summary.seconds), size_text(summary.bytes)))
        rows += [(f"  {label}", part, "", "") for label, part in summary.row.parts]
    cells = [("in", "out", "time", "bytes"), *((row.amount_in, row.amount_out, *cost) for _, row, *cost in rows)]
    widths = [max(len(line) for cell in column for line in cell.split("\n")) for column in zip(*cells, strict=True)]
    first = LOG_COLUMNS - sum(widths) - 2 * len(widths)
    lines = [*_align("stage", cells[0], first, widths), "─" * LOG_COLUMNS]
    for (name, row, *_), amounts in zip(rows, cells[1:], strict=True):
        lines += _align(name, amounts, first, widths)
        for noun, reasons in _iter_reasons(row):
            text = f"dropped{f' ({noun}s)' if noun else ''}: {reasons}"
            wrapped = textwrap.wrap(text, LOG_COLUMNS, initial_indent=_INDENT, subsequent_indent=2 * _INDENT)
            lines += [line.replace("\xa0", " ") for line in wrapped]
    return lines


def _align(name: str, cells: Sequence[str], first: int, widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of a row: its name in `first` columns, and cells of several lines on the right of it."""
    if len(name) > first:
        yield name
        name = ""
    for line in zip_longest(*(cell.split("\n") for cell in cells), fillvalue=""):
        shown = "".join(f"  {text:>{width}}" for text, width in zip(line, widths, strict=True))
        yield f"{name:<{first}}{shown}".rstrip()
        name = ""


def _iter_reasons(row: Row) -> Iterator[tuple[str, str]]:
    """Yield each unit of what is dropped with its reasons, the most frequent first; counts stay with their reasons."""
    for noun, group in row.left_out:
        reasons = sorted((-count, reason) for reason, count in group.items() if count)
        if reasons:
            yield noun, ", ".join(f"{-count:,} {reason}".replace(" ", "\xa0") for count, reason in reasons)


def print_table(summaries: Sequence[StageSummary]) -> None:
    """Print the accounting table to standard output."""
    text = "\n".join(["What happened to every document", *accounting_lines(summaries)])
    Terminal().print(text, highlight=False, markup=False, soft_wrap=True)
