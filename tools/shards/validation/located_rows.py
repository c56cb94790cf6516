"""The rows of a block, with the checks that its reader leaves out."""

from dataclasses import dataclass
from pathlib import Path

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.set_kinds import kind_of
from clozeline.pipeline.shards import Manifest, ShardSet
from clozeline.pipeline.shards.block import BlockError
from clozeline.pipeline.shards.row_rules import check_rows, describe_row, find_bounds
from clozeline.tools.shards.provenance.document_table import grouping_of


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """The rows of one block of a shard, with all columns."""

    path: Path
    block: int
    rows: RowBatch

    def error(self, row: int, message: str) -> IntegrityError:
        """Return an error that names the row."""
        where = describe_row(self.rows, row)
        return IntegrityError(f"{self.path}: block {self.block}: {where}: {message}")


def read_rows(shards: ShardSet, block: int) -> LocatedRows:
    """Return the rows of a block after all checks of rows.

    Raises:
        IntegrityError: see `check_block`.
    """
    path = shards.shard_path(int(shards.index.shard[block]))
    located = LocatedRows(path, int(shards.index.block[block]), shards.read_block(block))
    check_block(located, shards.manifest)
    return located


def check_block(block: LocatedRows, manifest: Manifest) -> None:
    """Check the rows of a block, also what no reader knows.

    Raises:
        IntegrityError: a row breaks a rule of its columns, lacks a column that every row must have,
            or has an answer that the kind of set does not allow.
    """
    grouping = grouping_of(manifest)
    # in a mixture, only some objectives may have a column
    is_mixture = manifest.objective is not None and grouping is not None and grouping.lengths[1:]
    try:
        check_rows(block.rows, manifest, find_bounds(manifest), everywhere=not is_mixture)
    except BlockError as error:
        raise IntegrityError(f"{block.path}: block {block.block}: {error}") from error

    if (kind := kind_of(manifest.objective)) is not None:
        for row, message in kind.problems(block.rows.columns):
            raise block.error(row, message)
