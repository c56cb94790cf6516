"""Show a row of a shard set: `clozeline inspect-shard mine/data/encode [sample=N] [html=FILE]`.

Prints the decoded pieces, marked as masked, replaced, kept, removed, reordered or rotated, the
sentinels with their spans, the source of the row, and the sizes of the set. Reads token, sample and
example sets in both containers. Without a tokenizer above the set, ids are shown.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np

from clozeline.command_line import Positional
from clozeline.configuration.config import check_arguments, config_class
from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.corrupt.preview.row_view import TokenRenderer, row_parts
from clozeline.pipeline.rows import ShardRow
from clozeline.pipeline.set_kinds import kind_of
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.pipeline.shards.column_set import JoinedShards
from clozeline.pipeline.shards.manifest import ObjectiveRecord
from clozeline.pipeline.shards.set_table import set_table
from clozeline.report.terminal_view import View, show_view
from clozeline.report.views import Part, Table
from clozeline.tools.command import Natural, OutputPath, Positive, UserPath, run_as_script, run_tool
from clozeline.tools.options import TokenizerOption
from clozeline.tools.shards.column_kinds import kinds_of
from clozeline.tools.shards.provenance.document_table import find_pieces
from clozeline.tools.shards.provenance.row_origins import (
    describe_row,
    list_facts,
    origins_of,
)
from clozeline.tools.shards.validation.located_rows import read_rows
from clozeline.tools.shards.viewer.sheets import column_sheet


@config_class
class InspectOptions(TokenizerOption):
    """A row of a set, and how it is shown."""

    path: Annotated[UserPath, Positional(0, "SHARD_OR_MANIFEST")]
    """a shard, a manifest, or its folder"""
    sample: Natural = 0
    """row, counted from 0"""
    columns: UserPath | None = None
    """a column set of it, such as scores of another model"""
    html: OutputPath | None = None
    """also write a web page"""
    tokens: Positive = 1024
    """tokens per passage"""


def view_of(
    path: Path | str,
    sample: int = 0,
    tokenizer: Path | None = None,
    limit: int = 1024,
    columns: Path | None = None,
) -> View:
    """Return the view of one row of a set or shard.

    Without a tokenizer (see `find_pieces`), ids are shown.

    `columns` is a column set of it.
    """
    shards, first, rows = _open(Path(path))
    added = None if columns is None else open_shards(columns)
    if added is not None:
        shards = JoinedShards(shards, [added])
    numbers = check_arguments(dict[str, Natural], "view_of", sample=sample, limit=limit)
    sample, limit = numbers.values()
    if sample >= rows:
        raise ConfigurationError(f"sample={sample}: {path} has {rows} rows, numbered from 0")
    block, in_block = shards.locate(first + sample)
    rows_of_block = read_rows(shards, block).rows
    row = rows_of_block.row(in_block)
    pieces = find_pieces(shards, tokenizer, limit)
    objective = shards.manifest.objective
    kind = kind_of(objective)
    restored = [] if objective is None or kind is not None else _restore(objective, row, pieces)
    answer = {} if kind is None else kind.describe_answer(row)
    answers = [Table("what the row asks for", (), [*answer.items()])] if answer else []
    manifest = shards.manifest
    at = {(block, in_block): rows_of_block.take(np.array([in_block]))}
    (origin,) = origins_of(shards, at).values()
    facts = describe_row(shards, (block, in_block), row, origin)
    sheets = (
        Table("where it comes from", (), list_facts(facts, hashes=True)),
        set_table(manifest),
        column_sheet(manifest, row),
    )

    of_columns = (
        sheet
        for kind, each in kinds_of([] if added is None else [added])
        for sheet in kind.sheets(pieces, row, shards, each)
    )
    title = f"{manifest.name} · row {first + sample} of {len(shards):,}"
    shown = row_parts(pieces, row, manifest.roles)
    return View(title, (*shown, *of_columns, *restored, *answers, *sheets))


def _open(path: Path) -> tuple[ShardSet, int, int]:
    if path.suffix not in (".arrow", ".tar"):
        shards = open_shards(path)
        return shards, 0, len(shards)

    shards = open_shards(path.parent / "manifest.json")
    names = [shard.path for shard in shards.manifest.shards]
    if path.name not in names:
        some = ", ".join(names[:3])
        raise ConfigurationError(
            f"{path}: the manifest next to it names no such shard; it has {some} …"
        )

    number = names.index(path.name)
    first = sum(shard.rows for shard in shards.manifest.shards[:number])
    return shards, first, shards.manifest.shards[number].rows


def _restore(facts: ObjectiveRecord, row: ShardRow, pieces: TokenRenderer) -> list[Part]:
    """Return the original that the objective recovers from a row, or why it cannot."""
    try:
        objective = build_objective(facts.entry(), pieces.vocabulary, facts.label)
        original = objective.restore(row)
        return [pieces.passage("restored by the objective", original)]
    except (ClozelineError, ValueError) as error:
        return [Table("restored by the objective", (), (("not possible", str(error)),))]


def _show(options: InspectOptions) -> None:
    view = view_of(options.path, options.sample, options.tokenizer, options.tokens, options.columns)
    show_view(view, options.html)


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, InspectOptions, _show, prints=True)


if __name__ == "__main__":
    run_as_script(main)
