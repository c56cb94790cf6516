"""Options of `group`; the objectives of the recipe decide which sample sets it writes."""

from dataclasses import field

from clozeline.configuration.config import config_class
from clozeline.pipeline.block_options import BlockRows, Compression


@config_class
class GroupConfig:
    """Options of all sample sets.

    There is one set for each combination of grouping, length and separator that the objectives of
    the recipe declare.
    """

    block_rows: BlockRows = "auto"
    """rows in a block, 1 to 65536, or `auto`: at most 4 MiB"""
    compression: Compression = field(default_factory=Compression)
