"""Show the contents of a shard set: `clozeline shard-stats MANIFEST [--html FILE]`.

Tables of the lengths of every column, labels and classes, vocabulary coverage, tokens by language (and by source, for a
token set) and sizes. Every block outside the quarantine is read and verified once.
"""

import argparse
import sys
from collections.abc import Sequence

from clozeline.errors import message_text
from clozeline.files import publish_text
from clozeline.pipeline.corrupt.preview.view import Sheet, View, print_view, view_page
from clozeline.pipeline.shards import open_shards
from clozeline.terminal import Terminal
from clozeline.tools.command import Arguments, run_tool, some_path
from clozeline.tools.shards.provenance.set_statistics import Cells, tables, tally
from clozeline.tools.shards.provenance.tokenizer import find_pieces


def _format(row: Cells) -> tuple[str, ...]:
    return tuple(
        cell if isinstance(cell, str) else f"{cell:,}" if isinstance(cell, int) else f"{cell:,.2f}" for cell in row
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Arguments(__doc__)
    parser.add_argument("manifest", type=some_path, help="manifest.json of a shard set, or its folder")
    parser.add_argument("--html", type=some_path, metavar="FILE", help="also write a page with the tables")

    def action(options: argparse.Namespace) -> None:
        shards = open_shards(options.manifest)
        sums, pieces = tally(shards), find_pieces(shards)
        if pieces is None:
            sys.stderr.write(message_text(f"note: no tokenizer above {shards.path}: ids are shown\n"))
        found = tables(shards, sums, pieces)
        sheets = tuple(Sheet(table.title, table.header, tuple(map(_format, table.rows))) for table in found)
        view = View(f"{shards.manifest.name} · contents", sheets)
        if options.html is not None:
            publish_text(options.html, view_page(view))
        print_view(view, Terminal())
        if options.html is not None:
            print(f"page: {options.html}")

    return run_tool(parser, arguments, action, prints=True)


if __name__ == "__main__":
    raise SystemExit(main())
