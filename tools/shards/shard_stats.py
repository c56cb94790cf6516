"""Show the contents of a shard set: `clozeline shard-stats MANIFEST [--html FILE]`.

Lengths of every column, labels and classes, vocabulary coverage, tokens by language and source, sizes: tables on the
terminal, and with `--html` a page with bars. Every block outside the quarantine is read and verified once.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from clozeline.errors import message_text
from clozeline.files import publish_text
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.report.html_page import bars, facts, grid, page, section, table
from clozeline.terminal import Terminal
from clozeline.tools.command import Arguments, run_tool, some_path
from clozeline.tools.shards.provenance.tokenizer import find_pieces
from clozeline.tools.shards.shard_statistics.sources import find_sources
from clozeline.tools.shards.shard_statistics.tables import Figures, tables
from clozeline.tools.shards.shard_statistics.tally import Tally, quantile, tally

# Bars of a figure, at most.
_BARS: Final = 20
# Ratio of the largest value to the median above which equally wide ranges would be mostly empty.
_SKEWED: Final = 16


def statistics_page(shards: ShardSet, sums: Tally, figures: Sequence[Figures]) -> str:
    """Return the page: the lengths of each column as bars, then the tables."""
    totals = shards.manifest.totals
    amounts = {"rows": totals.samples, "tokens": totals.tokens, "shards": totals.shards, "bytes": totals.bytes}
    parts = [
        facts({name: f"{amount:,}" for name, amount in amounts.items()}),
        grid(*length_bars(sums)),
        *(section(figure.title, table(figure.header, figure.rows)) for figure in figures),
    ]
    return page(f"{shards.manifest.name} · contents", parts)


def length_bars(sums: Tally) -> Iterator[str]:
    """Yield for each column its rows by length."""
    for name, counts in sums.lengths.items():
        edges = ranges(counts)
        rows = np.add.reduceat(counts, edges[:-1]).tolist() if len(counts) else []
        named = [
            f"{first:,}" if end == first + 1 else f"{first:,} to {end - 1:,}" for first, end in pairwise(edges.tolist())
        ]
        yield bars(f"Rows by length of {name}", dict(zip(named, rows, strict=False)))


def ranges(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the edges of the bars over the values 0, 1, 2, ...

    Neighboring values share a bar if there are many; if a few are far above the median, the ranges widen.
    """
    size = len(counts)
    if size > _BARS and size > _SKEWED * (quantile(counts, 0.5) + 1):
        return np.unique(np.concatenate(([0], np.geomspace(1, size, _BARS).round()))).astype(np.int64)
    width = max(1, -(-size // _BARS))
    return np.append(np.arange(0, max(1, size), width), max(1, size))


def _print_figures(figure: Figures, console: Console) -> None:
    console.print(Text(figure.title, "bold"), soft_wrap=True)
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(figure.header))
    numbers = [all(isinstance(row[column], int | float) for row in figure.rows) for column in range(len(figure.header))]
    for name, number in zip(figure.header, numbers, strict=True):
        shown.add_column(Text(name), justify="right" if number else "left", overflow="fold")
    for row in figure.rows:
        texts = (
            cell if isinstance(cell, str) else f"{cell:,}" if isinstance(cell, int) else f"{cell:,.2f}" for cell in row
        )
        shown.add_row(*map(Text, texts))
    console.print(shown)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Arguments(__doc__)
    parser.add_argument("manifest", type=some_path, help="manifest.json of a shard set, or its folder")
    parser.add_argument("--html", type=some_path, metavar="FILE", help="also write a page with the lengths as bars")

    def action(options: argparse.Namespace) -> None:
        shards = open_shards(options.manifest)
        sums = tally(shards, find_sources(shards))
        pieces = find_pieces(shards)
        if pieces is None:
            sys.stderr.write(message_text(f"note: no tokenizer above {shards.path}: ids are shown\n"))
        figures, console = tables(shards, sums, pieces), Terminal()
        if options.html is not None:
            publish_text(options.html, statistics_page(shards, sums, figures))
        for figure in figures:
            _print_figures(figure, console)
        if options.html is not None:
            print(f"page: {options.html}")

    return run_tool(parser, arguments, action, prints=True)


if __name__ == "__main__":
    raise SystemExit(main())
