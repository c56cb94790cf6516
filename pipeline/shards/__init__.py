"""Shard sets: blocks of rows in Arrow or WebDataset files, with an index and a manifest."""

from clozeline.pipeline.block_options import StoreOptions
from clozeline.pipeline.shards.block import ColumnSpec, DamagedBlock, base_columns, feature_columns
from clozeline.pipeline.shards.index import Block
from clozeline.pipeline.shards.layout import auto_block_rows
from clozeline.pipeline.shards.manifest import Manifest, ManifestError
from clozeline.pipeline.shards.reader import ShardSet, open_shards
from clozeline.pipeline.shards.writer import SetWriter, ShardInfo, write_manifest, write_shard

__all__ = [
    "Block",
    "ColumnSpec",
    "DamagedBlock",
    "Manifest",
    "ManifestError",
    "SetWriter",
    "ShardInfo",
    "ShardSet",
    "StoreOptions",
    "auto_block_rows",
    "base_columns",
    "feature_columns",
    "open_shards",
    "write_manifest",
    "write_shard",
]
