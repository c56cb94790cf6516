"""Column sets: further columns of a shard set, for the same rows in the same blocks, in files of their own.

A column set is a shard set of the kind `columns`. Its parent is the set that it belongs to, named by its digest; both
are read together, block by block.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from clozeline.errors import ConfigurationError
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards.manifest import Manifest, canonical_sha256
from clozeline.pipeline.shards.quarantine import Quarantine
from clozeline.pipeline.shards.reader import ShardSet

ROWS: Final = "rows"
"""Role of the parent: the set whose rows these are."""


class JoinedShards(ShardSet):
    """A shard set and column sets of it, read as one set; its digest is that of the shard set.

    Args:
        shards: the set of the rows.
        columns: its column sets.

    Raises:
        ConfigurationError: a column set belongs to other rows, or a column is there twice.
    """

    def __init__(self, shards: ShardSet, columns: Sequence[ShardSet]) -> None:
        for own in columns:
            _refuse_other_rows(shards, own)
        names = [spec.name for part in (shards, *columns) for spec in part.columns]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigurationError(f"{columns[-1].path}: {min(twice)} is a column of another set here: leave one out")
        parts = [part.manifest for part in (shards, *columns)]
        changes: dict[str, object] = {
            "columns": tuple(column for part in parts for column in part.columns),
            "max_block_bytes": sum(part.max_block_bytes for part in parts),
        }
        # not `model_copy`, which would carry over cached properties
        manifest = Manifest.model_construct(**{**dict(shards.manifest), **changes})
        super().__init__(shards.path, manifest, shards.index, shards._files, _join_quarantines([shards, *columns]))
        self.rows, self.column_sets = shards, tuple(columns)

    @property
    def digest(self) -> str:
        return self.rows.digest

    @property
    def is_remote(self) -> bool:
        return any(part.is_remote for part in (self.rows, *self.column_sets))

    @cached_property
    def columns_digest(self) -> str:
        """SHA-256 (hex) of the content of the column sets, and of what they say about it."""
        return canonical_sha256([[own.digest, own.manifest.config] for own in self.column_sets])

    def check_files(self) -> None:
        for part in (self.rows, *self.column_sets):
            part.check_files()

    def stats(self) -> dict[str, float]:
        total: Counter[str] = Counter()
        for part in (self.rows, *self.column_sets):
            total.update(part.stats())
        return dict(total)

    def release(self) -> None:
        for part in (self.rows, *self.column_sets):
            part.release()

    def verify_shard(self, shard: int) -> None:
        for part in (self.rows, *self.column_sets):
            part.verify_shard(shard)

    def read_block(self, block: int, columns: Collection[str] | None = None) -> Rows:
        """Read the rows of a block with all their columns; a column set of which no column is read is not opened."""
        rows = self.rows.read_block(block, columns)
        lists = dict(rows.columns)
        for part in self.column_sets:
            if columns is None or any(spec.name in columns for spec in part.columns):
                lists |= part.read_block(block, columns).columns
        return Rows(rows.fixed, lists)


def _refuse_other_rows(shards: ShardSet, own: ShardSet) -> None:
    """Refuse a column set of another set, of another version of it, or with other blocks."""
    ours, theirs = shards.manifest, own.manifest
    if ours.kind != "examples":
        raise ConfigurationError(
            f"{own.path}: holds columns of examples, and {shards.path} holds {ours.kind}: online corruption makes "
            "other labels than those that the columns belong to; name the example set"
        )
    if theirs.kind != "columns":
        raise ConfigurationError(f"{own.path}: expected a column set, as `clozeline teach` writes, got {theirs.kind}")
    parents = [parent for parent in theirs.parents if parent.role == ROWS]
    if [parent.digest for parent in parents] != [shards.digest]:
        of = ", ".join(f"{parent.name} (digest {parent.digest[:16]})" for parent in parents)
        raise ConfigurationError(
            f"{own.path}: holds columns of {of}, {shards.path} is {ours.name} (digest {shards.digest[:16]}): name the "
            "set that they were made from, or make them again"
        )
    same = len(own.index) == len(shards.index) and np.array_equal(own.index.rows, shards.index.rows)
    if not same or theirs.variants != ours.variants:
        counts = [f"{part.variants} variants, {part.totals.samples} rows in {part.totals.blocks} blocks"
                  for part in (theirs, ours)]  # fmt: skip
        raise ConfigurationError(f"{own.path}: {counts[0]}, {shards.path} has {counts[1]}: make the columns again")


def _join_quarantines(parts: Sequence[ShardSet]) -> Quarantine:
    """Return the blocks that are in quarantine in any of the sets."""
    files = [part.quarantine.sha256 for part in parts]
    blocks = frozenset[int]().union(*(part.quarantined for part in parts))
    return Quarantine(blocks, canonical_sha256(files) if any(files[1:]) else files[0])
