"""Show a row of any set as passages and tables, chosen by its columns, not by the name of its objective."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from clozeline.pipeline.corrupt.preview.pieces import Pieces
from clozeline.pipeline.corrupt.preview.predictions import fragment_as_labels, has_values, prefix_length
from clozeline.pipeline.corrupt.preview.view import Parts, Sheet
from clozeline.pipeline.rows import Row

# The text column of each type of set.
_TEXTS: Final = ("input_ids", "ids", "token_ids")
# Pairs of columns that hold two texts, and their titles.
_PAIRS: Final = {
    ("ids", "partner_ids"): ("text", "partner, from another document"),
    ("ids", "target_ids"): ("text", "other side"),
    ("input_ids", "input_ids_b"): ("one text", "the text it belongs to"),
    ("input_ids", "target_ids"): ("input", "target"),
    ("token_ids", "target_ids"): ("text", "other side"),
}
_BOUNDARIES: Final = {"sentence_starts": "|", "segment_starts": "‖", "document_starts": "▌"}


def row_parts(show: Pieces, row: Row) -> Parts:
    """Return everything to show of a row."""
    row = fragment_as_labels(row)
    columns = row.columns
    # boundaries recorded next to a target are of the target's text before it was corrupted
    is_denoised = {"input_ids", "target_ids"} <= columns.keys()
    names = () if is_denoised else _BOUNDARIES.items()
    signs = {int(at): sign for name, sign in names for at in columns.get(name, ())}
    if "label_positions" in columns:
        return _label_parts(show, row, signs)
    for (first, second), (title, other) in _PAIRS.items():
        if first in columns and has_values(row, second):
            return [show.passage(title, row[first], None, signs), show.passage(other, row[second])]
    name = next(name for name in _TEXTS if name in columns)
    if "prediction_order" not in columns:
        prefix = dict.fromkeys(range(prefix_length(row)), "prefix")
        return [show.passage(name, row[name], prefix, signs)]
    order = row["prediction_order"].tolist()
    lines = tuple(
        (str(rank), str(position), show.label(int(row[name][position]), "predicted"))
        for rank, position in enumerate(order, 1)
    )
    sheet = Sheet(f"order of prediction ({len(lines)})", ("number", "position", "token"), lines)
    return [show.passage("input", row[name], dict.fromkeys(order, "predicted"), signs), sheet]


def _label_parts(show: Pieces, row: Row, signs: Mapping[int, str]) -> Parts:
    """Show a row with labels: input, original, and both at each label."""
    ids, original = row["input_ids"], row["input_ids"].astype(np.int64)
    original[row["label_positions"]] = row["label_ids"]
    roles = dict.fromkeys(range(prefix_length(row)), "prefix")
    lines = []
    for position in row["label_positions"].tolist():
        shown, label = int(ids[position]), int(original[position])
        is_mask = shown == show.vocabulary.specials.get("mask", -1)
        roles[position] = role = "masked" if is_mask else "kept" if shown == label else "replaced"
        lines.append((str(position), show.label(label, role), show.label(shown, role), role))
    return [
        show.passage("input", ids, roles, signs),
        show.passage("original", original, roles, signs),
        Sheet(f"labels ({len(lines)})", ("position", "original", "input", "what"), tuple(lines)),
    ]
