"""Groupings: how token documents become sample rows. One per file, run by the stage `group` only.

Everything decided here (cuts, reasons of length) is independent of variants and of what corruption
draws. Tokens in = tokens in rows + tokens rejected by reason; separators are counted apart.
"""

from clozeline.pipeline.group.groupings._grouping import (
    Context,
    Grouped,
    Grouping,
    GroupingSpec,
    MinimumRow,
    PartOptions,
    Starts,
    build_grouping,
    starts_dtype,
)

__all__ = [
    "Context",
    "Grouped",
    "Grouping",
    "GroupingSpec",
    "MinimumRow",
    "PartOptions",
    "Starts",
    "build_grouping",
    "starts_dtype",
]
