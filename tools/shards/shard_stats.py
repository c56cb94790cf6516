"""Show the contents of a shard set: `clozeline shard-stats MANIFEST [html=FILE]`.

Tables of the lengths of every column, labels and classes, vocabulary coverage, tokens by language
(and by source, for a token set) and sizes. Every block outside the quarantine is read and verified
once.
"""

import argparse
from collections.abc import Sequence

from clozeline.pipeline.corrupt.preview.view import ConsoleView, Sheet, show_view
from clozeline.pipeline.shards import open_shards
from clozeline.tools.command import Arguments, run_as_script, run_tool, some_path
from clozeline.tools.shards.provenance.document_table import TOKENIZER_HELP, find_pieces
from clozeline.tools.shards.provenance.set_statistics import Cells, tables, tally


def _format(row: Cells) -> tuple[str, ...]:
    return tuple(
        cell if isinstance(cell, str) else f"{cell:,}" if isinstance(cell, int) else f"{cell:,.2f}"
        for cell in row
    )


def main(arguments: Sequence[str]) -> int:
    parser = Arguments(__doc__)
    parser.add_argument(
        "manifest", type=some_path, help="manifest.json of a shard set, or its folder"
    )
    parser.add_argument("--tokenizer", type=some_path, metavar="DIR", help=TOKENIZER_HELP)
    parser.add_argument(
        "--html", type=some_path, metavar="FILE", help="also write a page with the tables"
    )

    def action(options: argparse.Namespace) -> None:
        shards = open_shards(options.manifest)
        found = tables(shards, tally(shards), find_pieces(shards, options.tokenizer))
        sheets = tuple(
            Sheet(table.title, table.header, tuple(map(_format, table.rows))) for table in found
        )
        show_view(ConsoleView(f"{shards.manifest.name} · contents", sheets), options.html)

    return run_tool(parser, arguments, action, prints=True)


if __name__ == "__main__":
    run_as_script(main)
