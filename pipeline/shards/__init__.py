"""Shard sets: blocks of rows in Arrow or WebDataset files, a block index, and a manifest written last."""

from pipeline.shards.columns import ColumnSpec, feature_columns, fixed_columns
from pipeline.shards.errors import DamagedBlock, ManifestError
from pipeline.shards.manifest import Manifest
from pipeline.shards.manifest_writer import write_manifest
from pipeline.shards.opening import open_shards
from pipeline.shards.reader import ShardSet
from pipeline.shards.set_writer import SetWriter
from pipeline.shards.shard import Block, ShardInfo
from pipeline.shards.store import StoreOptions
from pipeline.shards.writer import auto_block_rows, write_shard

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
    "feature_columns",
    "fixed_columns",
    "open_shards",
    "write_manifest",
    "write_shard",
]
