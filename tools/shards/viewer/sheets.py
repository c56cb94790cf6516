"""Describe a set and the source of a row as sheets of a view."""

from typing import Final

import numpy as np

from clozeline.pipeline.corrupt.preview.row_view import TokenRenderer
from clozeline.pipeline.rows import ShardRow
from clozeline.pipeline.shards import Manifest, ShardSet
from clozeline.pipeline.shards.column_set import JoinedShards
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


_SHOWN: Final = 5


def score_sheets(pieces: TokenRenderer, row: ShardRow, shards: ShardSet) -> list[Table]:
    """Return a table with the five best classes of the teacher for each label.

    [] without stored scores.

    Labels that are not stored as `label_ids` are counted from 1; classes of tasks are numbers.
    """
    parts = shards.column_sets if isinstance(shards, JoinedShards) else ()
    entries = [
        part.manifest.config["teacher"]["k"] for part in parts if "teacher" in part.manifest.config
    ]
    if not entries:
        return []
    # ids and weights [labels, k]
    labels = row.columns.get("label_ids")
    are_classes = any(role.below == "classes" for role in shards.manifest.roles.values())
    ids, weights = (
        row[name].reshape(-1, entries[0]) for name in ("teacher_ids", "teacher_weights")
    )
    lines = []

    for number, (token_id, shares) in enumerate(zip(ids, weights, strict=True)):
        best = [
            entry
            for entry in np.argsort(-shares.astype(np.float64), kind="stable")[:_SHOWN]
            if shares[entry] > 0
        ]

        named = [
            str(token_id[entry]) if are_classes else pieces.piece(int(token_id[entry]))
            for entry in best
        ]
        scored = " · ".join(
            f"{name} {float(shares[entry]):.3f}" for name, entry in zip(named, best, strict=True)
        )
        label = str(number + 1) if labels is None else pieces.piece(int(labels[number]))
        lines.append((label, scored))

    return [Table("best scores of the teacher", ("label", "class and weight"), tuple(lines))]
