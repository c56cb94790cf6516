"""Options of `group`; which sample sets it makes follows from the recipe's objectives."""

from dataclasses import field

from clozeline.configuration.config import config_class
from clozeline.pipeline.block_options import BlockRows, Compression


@config_class
class GroupConfig:
    """The sample sets: one per distinct grouping, length and separator that the recipe's objectives declare."""

    block_rows: BlockRows = "auto"
    """rows of a block, 1 to 65536, or `auto`: at most 4 MiB"""
    compression: Compression = field(default_factory=Compression)
