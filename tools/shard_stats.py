"""What a shard set holds: `python tools/shard_stats.py MANIFEST [--html FILE]`.

Lengths of every column, labels and classes, vocabulary coverage, tokens by language and source, sizes: tables on the
terminal, and with `--html` a page with pictures. Every block is read and checked once, but for those in quarantine.
"""

from __future__ import annotations

import argparse
import html
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.files import publish
from pipeline.html_page import bars, page, table
from pipeline.shards import ShardSet, open_shards
from tools.lib.command import Arguments, Terminal, run_tool, some_path
from tools.shard_statistics.pictures import coverage_curve, histogram
from tools.shard_statistics.sources import find_sources
from tools.shard_statistics.tables import Figures, tables
from tools.shard_statistics.tally import Tally, named, tally
from tools.viewer.pieces import pieces_of

__all__ = ["main", "statistics_page"]


def statistics_page(shards: ShardSet, found: Tally, figures: Sequence[Figures]) -> str:
    """The page's HTML: the tables, and a picture of each distribution."""
    parts = []
    for one in figures:
        parts += [f"<h2>{html.escape(one.title)}</h2>", table(one.header, one.rows)]
    parts += [histogram(f"rows by length of {name}", counts) for name, counts in found.lengths.items()]
    parts += [
        coverage_curve(f"share of {name} that the most frequent ids make up", counts)
        for name, counts in found.ids.items()
    ]
    shares = {"language": named(found.tokens_by_language, shards.manifest.languages), "source": found.tokens_by_source}
    parts += [f"<h2>tokens by {title}</h2>{bars(counts)}" for title, counts in shares.items() if counts]
    return page(f"{shards.manifest.name} · what the shards hold", parts)


def _print(one: Figures, console: Console) -> None:
    console.print(Text(one.title, "bold"), soft_wrap=True)
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(one.header))
    numbers = [all(isinstance(row[place], int | float) for row in one.rows) for place in range(len(one.header))]
    for name, number in zip(one.header, numbers, strict=True):
        shown.add_column(Text(name), justify="right" if number else "left", overflow="fold")
    for row in one.rows:
        shown.add_row(*(Text(_cell(value)) for value in row))
    console.print(shown)


def _cell(value: str | int | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Arguments(__doc__)
    parser.add_argument("manifest", type=some_path, help="manifest.json of a shard set, or its folder")
    parser.add_argument("--html", type=some_path, metavar="FILE", help="write a page with pictures, too")

    def action(options: argparse.Namespace) -> int:
        shards = open_shards(options.manifest)
        found = tally(shards, find_sources(shards))
        figures, console = tables(shards, found, pieces_of(shards)), Terminal()
        if options.html is not None:
            with publish(options.html) as temporary:
                temporary.write_text(statistics_page(shards, found, figures), encoding="utf-8")
        for one in figures:
            _print(one, console)
        if options.html is not None:
            print(f"page: {options.html}")
        return 0

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
