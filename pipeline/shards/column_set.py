"""Column sets: further columns for the rows of a shard set, in separate files.

A column set is a shard set of the type `columns`, with the same blocks. Its parent is the set with
the rows, named by its digest. Both are read together, block by block.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.columns import IDS, Feature, Role
from clozeline.errors import ConfigurationError
from clozeline.pipeline.rows import WORD_STARTS, RowBatch
from clozeline.pipeline.shards import ColumnSpec, feature_columns
from clozeline.pipeline.shards.manifest import Manifest, canonical_sha256
from clozeline.pipeline.shards.reader import ShardSet
from clozeline.recorded_file import RecordedFile, find_file

ROWS: Final = "rows"
"""Role of a column set's parent: the shard set that holds the rows."""


class JoinedShards(ShardSet):
    """A shard set and its column sets, read as one set with the digest of the shard set.

    Args:
        shards: the set of the rows.
        columns: its column sets.

    Raises:
        ConfigurationError: a column set belongs to other rows, or two sets have the same column.
    """

    def __init__(self, shards: ShardSet, columns: Sequence[ShardSet]) -> None:
        for column_set in columns:
            _check_rows(shards, column_set)
        names = [spec.name for part in (shards, *columns) for spec in part.columns]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigurationError(
                f"{columns[-1].path}: another set has the column {min(twice)} too: remove one"
            )

        parts = [part.manifest for part in (shards, *columns)]
        changes: dict[str, object] = {
            "columns": tuple(column for part in parts for column in part.columns),
            "max_block_bytes": sum(part.max_block_bytes for part in parts),
        }
        # `model_copy` would also copy cached properties
        manifest = Manifest.model_construct(**{**dict(shards.manifest), **changes})
        super().__init__(shards.path, manifest, shards.index, shards._files)
        self.rows = shards
        self.column_sets = tuple(columns)

    @property
    def digest(self) -> str:
        return self.rows.digest

    @property
    def is_remote(self) -> bool:
        return any(part.is_remote for part in (self.rows, *self.column_sets))

    @cached_property
    def columns_digest(self) -> str:
        """SHA-256 (hex) of the content and configuration of the column sets."""
        return canonical_sha256([[part.digest, part.manifest.config] for part in self.column_sets])

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

    def read_block(self, block: int, columns: Collection[str] | None = None) -> RowBatch:
        """Read the rows of a block.

        Column sets are only opened if one of their columns is requested.
        """
        rows = self.rows.read_block(block, columns)
        lists = dict(rows.columns)
        for part in self.column_sets:
            if columns is None or any(spec.name in columns for spec in part.columns):
                lists |= part.read_block(block, columns).columns
        return RowBatch(rows.fixed, lists)

    def read_ahead(self, blocks: Sequence[int]) -> Self:
        """Return this set with the rows of blocks in memory; column sets read block by block."""
        ahead = copy(self)
        ahead.rows = self.rows.read_ahead(blocks)
        return ahead


def _check_rows(shards: ShardSet, columns: ShardSet) -> None:
    """Raise ConfigurationError unless a column set belongs to this version of the set."""
    row_manifest = shards.manifest
    column_manifest = columns.manifest

    if row_manifest.kind != "examples":
        raise ConfigurationError(
            f"{columns.path}: holds columns of examples, but {shards.path} holds "
            f"{row_manifest.kind}: online corruption draws other labels than those of the "
            "columns; name the example set"
        )

    if column_manifest.kind != "columns":
        raise ConfigurationError(
            f"{columns.path}: expected a column set, got {column_manifest.kind}"
        )

    parents = [parent for parent in column_manifest.parents if parent.role == ROWS]
    if [parent.digest for parent in parents] != [shards.digest]:
        parent_names = ", ".join(
            f"{parent.name} (digest {parent.digest[:16]})" for parent in parents
        )
        raise ConfigurationError(
            f"{columns.path}: holds columns of {parent_names}, but {shards.path} is "
            f"{row_manifest.name} (digest {shards.digest[:16]}): name the set "
            "that the columns were made from, or make them again"
        )

    own_rows = columns.index.rows
    have_equal_blocks = len(own_rows) == len(shards.index) and np.array_equal(
        own_rows, shards.index.rows
    )
    if not have_equal_blocks or column_manifest.variants != row_manifest.variants:
        counts = [
            f"{part.variants} variants, {part.totals.samples} rows in {part.totals.blocks} blocks"
            for part in (column_manifest, row_manifest)
        ]
        raise ConfigurationError(
            f"{columns.path}: {counts[0]}, {shards.path} has {counts[1]}: make the columns again"
        )


DOCUMENTS_SCHEMA: Final = pa.schema(
    [
        pa.field("uid", pa.binary(16), nullable=False),
        pa.field("source", pa.utf8(), nullable=False),
        pa.field("offset", pa.uint64(), nullable=False),
        pa.field("length", pa.uint64(), nullable=False),
        pa.field("url", pa.utf8()),
        pa.field("id", pa.utf8()),
        pa.field("language", pa.utf8(), nullable=False),
        pa.field("tokens", pa.uint32(), nullable=False),
    ]
)
"""Columns of `documents-*.arrow`: the origin of each document of a token shard, in shard order."""

EXTRA_COLUMN: Final = pa.field("extra", pa.utf8())
"""Further column of `documents-*.arrow` if a recipe declares `extra` keys: a JSON object of them,
or null."""

_TEXT_FEATURES: Final = (
    Feature("token_ids", "ids", IDS, "the document's tokens"),
    Feature(
        "sentence_starts",
        "uint32",
        Role("start", "token_ids"),
        "tokens at which sentences begin, first 0",
    ),
)
_OTHER_SIDE_FEATURES: Final = (
    Feature(
        "target_ids",
        "ids",
        IDS,
        "tokens of the other side of a pair; none where there is no other side",
    ),
    Feature("target_language", "uint8", Role("row", below="languages"), "code of its language"),
)


def token_columns(vocab_size: int, *, pairs: bool = False, words: bool = False) -> list[ColumnSpec]:
    """Return the columns of a token shard, also of aligned texts (`pairs`) or `words`."""
    columns = [
        ColumnSpec("document_uid", "binary16", "fixed", "the document"),
        ColumnSpec("language", "uint8", "fixed", "code; names stand in the manifest"),
        ColumnSpec(
            "source_group",
            "uint16",
            "fixed",
            "code of the input's label; names stand in the manifest",
        ),
    ]

    features = (
        *_TEXT_FEATURES,
        *(_OTHER_SIDE_FEATURES if pairs else ()),
        *((WORD_STARTS,) if words else ()),
    )
    return [*columns, *feature_columns(features, vocab_size)]


def identities(column: pa.ChunkedArray) -> NDArray[np.generic]:
    """Return uids as an array of bytes, shape [n, 16]."""
    return np.frombuffer(b"".join(column.to_pylist()), dtype=np.uint8).reshape(-1, 16)


def document_table(path: Path) -> RecordedFile:
    """Return a file `documents-*.arrow`, with the record of the shard if the run still exists."""
    return find_file(path.parent, f"merge/{int(path.name.split('-')[1]):06d}", path.name)
