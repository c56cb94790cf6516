"""Groupings, one per file: turn token documents into sample rows, in the stage `group`.

Nothing here depends on variants or on the random choices of corruption. Tokens in = tokens in rows
+ tokens dropped, by reason; separators are counted separately.
"""

from clozeline.pipeline.group.groupings._grouping import (
    Context,
    GroupedRows,
    Grouping,
    GroupingSpec,
    MinimumRow,
    PartOptions,
    Starts,
    build_grouping,
    recorded_grouping,
    starts_dtype,
)

__all__ = [
    "Context",
    "GroupedRows",
    "Grouping",
    "GroupingSpec",
    "MinimumRow",
    "PartOptions",
    "Starts",
    "build_grouping",
    "recorded_grouping",
    "starts_dtype",
]
