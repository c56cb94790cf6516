"""Groupings: how token documents become sample rows. One per file, run by the stage `group` and nobody else.

Everything decided here (cuts, reasons of length) is independent of variants and of what corruption draws. Tokens in =
tokens in rows + tokens rejected by reason; separators are counted apart.
"""

from pipeline.groupings._grouping import (
    LONGEST_ROW,
    Context,
    Grouped,
    Grouping,
    GroupingSpec,
    MinimumRow,
    PartOptions,
    Starts,
    build_grouping,
    kept_by_minimum,
    row_offsets,
    sample_rows,
    starts_at,
    without_empty,
)

__all__ = [
    "LONGEST_ROW",
    "Context",
    "Grouped",
    "Grouping",
    "GroupingSpec",
    "MinimumRow",
    "PartOptions",
    "Starts",
    "build_grouping",
    "kept_by_minimum",
    "row_offsets",
    "sample_rows",
    "starts_at",
    "without_empty",
]
