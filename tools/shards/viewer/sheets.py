"""Describe a set and the source of a row as sheets of a view."""

import numpy as np

from clozeline.pipeline.rows import ShardRow
from clozeline.pipeline.shards import Manifest
from clozeline.report.views import Table

_SHOWN_VALUES = 24


def column_sheet(manifest: Manifest, row: ShardRow) -> Table:
    """Return every list column with its role, its values in this row and its meaning."""
    rows = []
    for spec in manifest.columns:
        if spec.name in row.columns:
            values = np.asarray(row.columns[spec.name])
            more = f" … {len(values) - _SHOWN_VALUES:,} more" if len(values) > _SHOWN_VALUES else ""
            shown = " ".join(str(value) for value in values[:_SHOWN_VALUES].tolist())
            rows.append(
                (spec.name, spec.arrow_type, str(spec.role), f"{shown}{more}", spec.description)
            )
    return Table("columns", ("name", "type", "role", "values", "meaning"), tuple(rows))
