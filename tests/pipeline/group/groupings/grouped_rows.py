from __future__ import annotations

from typing import Any

from clozeline.pipeline.group.groupings import Context, GroupingSpec, MinimumRow, build_grouping
from clozeline.pipeline.rows import Rows
from tests.pipeline.corruption_cases import vocabulary

WORDS = vocabulary(1000)


def run(
    rows: Rows, name: str, length: int, minimum: MinimumRow | None = None, separator: str = "none"
) -> tuple[Rows, Any]:
    spec = GroupingSpec(name, length, separator)
    grouped = build_grouping(spec, WORDS).group(rows, minimum or MinimumRow(), Context(spec.label))
    return grouped.rows, grouped.counts
