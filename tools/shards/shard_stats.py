"""Show the contents of a shard set: `clozeline shard-stats mine/data/encode [html=FILE]`.

Tables of the lengths of every column, labels and classes, vocabulary coverage, tokens by language
(and by source, for a token set) and sizes. Every block is read and verified once.
"""

from collections.abc import Sequence

from clozeline.configuration.config import config_class
from clozeline.pipeline.shards import open_shards
from clozeline.report.terminal_view import show_view
from clozeline.report.views import Section
from clozeline.tools.command import OutputPath, run_as_script, run_tool
from clozeline.tools.options import SetArgument, TokenizerOption
from clozeline.tools.shards.provenance.document_table import find_pieces
from clozeline.tools.shards.provenance.set_statistics import tables, tally


@config_class
class StatsOptions(TokenizerOption, SetArgument):
    """A set, and where its tables go."""

    html: OutputPath | None = None
    """also write a page with the tables"""


def _show(options: StatsOptions) -> None:
    shards = open_shards(options.manifest)
    statistics = tables(shards, tally(shards), find_pieces(shards, options.tokenizer))
    show_view(Section(f"{shards.manifest.name} · contents", statistics), options.html)


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, StatsOptions, _show, prints=True)


if __name__ == "__main__":
    run_as_script(main)
