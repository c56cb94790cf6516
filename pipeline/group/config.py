"""Options of `group`: the sample sets."""

from dataclasses import field
from typing import Annotated, Literal

from clozeline.configuration.config import config_class
from clozeline.pipeline.block_options import BlockRows, Compression
from clozeline.registry import Chosen, OneOf


@config_class
class GroupConfig:
    """The sample sets to make."""

    groupings: Literal["auto"] | list[Annotated[Chosen, OneOf("clozeline.pipeline.group.groupings")]] = "auto"
    """`auto`: one set per distinct grouping, length and separator that the recipe's objectives declare; or a list"""
    block_rows: BlockRows = "auto"
    """rows of a block, 1 to 65536, or `auto`: at most 4 MiB"""
    compression: Compression = field(default_factory=Compression)
