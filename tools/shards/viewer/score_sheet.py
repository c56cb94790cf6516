"""Show what a teacher scores best at each label of a row."""

from typing import Final

import numpy as np

from clozeline.pipeline.corrupt.preview.row_view import Pieces
from clozeline.pipeline.corrupt.preview.view import Sheet
from clozeline.pipeline.rows import Row
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.shards.column_set import JoinedShards

_SHOWN: Final = 5


def score_sheets(pieces: Pieces, row: Row, shards: ShardSet) -> list[Sheet]:
    """Return a table with the five best classes of the teacher for each label; [] without stored scores.

    Labels that are not stored as `label_ids` are counted from 1; classes of tasks are numbers.
    """
    parts = shards.column_sets if isinstance(shards, JoinedShards) else ()
    entries = [part.manifest.config["teacher"]["k"] for part in parts if "teacher" in part.manifest.config]
    if not entries:
        return []
    # ids and weights [labels, k]
    labels, is_task = row.columns.get("label_ids"), not row.columns.keys().isdisjoint({"tags", "label"})
    ids, weights = (row[name].reshape(-1, entries[0]) for name in ("teacher_ids", "teacher_weights"))
    lines = []
    for number, (own, shares) in enumerate(zip(ids, weights, strict=True)):
        best = [entry for entry in np.argsort(-shares.astype(np.float64), kind="stable")[:_SHOWN] if shares[entry] > 0]
        named = [str(own[entry]) if is_task else pieces.piece(int(own[entry])) for entry in best]
        scored = " · ".join(f"{name} {float(shares[entry]):.3f}" for name, entry in zip(named, best, strict=True))
        label = str(number + 1) if labels is None else pieces.piece(int(labels[number]))
        lines.append((label, scored))
    return [Sheet("best scores of the teacher", ("label", "class and weight"), tuple(lines))]
