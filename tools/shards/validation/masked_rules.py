"""Check the columns that accompany labels: prediction order, attention, label spans, crops."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from clozeline.pipeline.rows import Ragged
from clozeline.pipeline.shards import Manifest
from clozeline.tools.shards.validation import ragged_checks
from clozeline.tools.shards.validation.ragged_checks import Check, LocatedRows, Problem


def _predictions(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    columns = block.rows.columns
    if "prediction_order" not in columns:
        return
    order, rows = columns["prediction_order"], columns["input_ids"]
    if "label_positions" not in columns and (row := ragged_checks.first_row(order.lengths == 0)) is not None:
        yield row, "prediction_order is empty"
    if (row := ragged_checks.first_outside(order, rows.lengths)) is not None:
        yield row, f"expected prediction_order below the {rows.lengths[row]} tokens of the row, got {order[row].max()}"
        return
    # sort the positions of each row to find repetitions
    sorted_values = order.values[np.lexsort((order.values, ragged_checks.row_of_values(order)))]
    if (row := ragged_checks.first_not_ascending(Ragged(sorted_values, order.offsets))) is not None:
        yield row, f"expected each position once in prediction_order, got {order[row].tolist()}"
    # the token at each predicted position
    predicted = rows.values[order.values + np.repeat(rows.offsets[:-1], order.lengths)]
    if (row := ragged_checks.first_of_values(order, ragged_checks.special_ids(manifest)[predicted])) is not None:
        yield row, f"expected positions of text in prediction_order, got that of a special token: {order[row].tolist()}"


def _weights(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    columns = block.rows.columns
    for name in ("label_weight", "label_count"):
        if name in columns:
            weights = columns[name]
            if (row := ragged_checks.first_row(weights.lengths != (columns["label_ids"].lengths > 0))) is not None:
                yield row, f"expected one {name} in a row with labels, got {weights[row].tolist()}"
            if (
                row := ragged_checks.first_of_values(weights, ~(np.isfinite(weights.values) & (weights.values > 0)))
            ) is not None:
                yield row, f"expected a {name} above 0, got {weights[row].tolist()}"


def _attention(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    columns = block.rows.columns
    if "attention" not in columns or "prefix_length" not in columns:
        return
    mode, prefix = columns["attention"], columns["prefix_length"]
    # rows of other parts of a mixture have neither
    stored = np.flatnonzero((mode.lengths == 1) & (prefix.lengths == 1))
    modes, prefixes = mode.values[mode.offsets[stored]], prefix.values[prefix.offsets[stored]]
    wrong = np.zeros(len(mode), dtype=np.bool_)
    wrong[stored] = ((modes == _PREFIX) != (prefixes > 0)) | (prefixes > columns["input_ids"].lengths[stored])
    if (row := ragged_checks.first_row(wrong)) is not None:
        values = f"{prefix[row].tolist()} with attention {mode[row].tolist()}"
        yield row, f"expected a prefix_length inside the row for attention {_PREFIX}, else 0; got {values}"


def _label_spans(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    columns = block.rows.columns
    if not {"span_starts", "label_positions"} <= columns.keys():
        return
    starts, lengths, labels = columns["span_starts"], columns["span_lengths"], columns["label_positions"]
    if not (starts.lengths == lengths.lengths).all():
        return  # reported by the check of all spans
    # rows of other parts of a mixture have no spans; of the rest, expand spans to the positions they cover
    stored = np.flatnonzero(starts.lengths)
    starts, lengths, labels = starts.take(stored), lengths.take(stored), labels.take(stored)
    sizes = lengths.values.astype(np.int64)
    # positions that all spans cover, one after the other
    ends = np.cumsum(sizes)
    covered = np.repeat(starts.values.astype(np.int64) - ends + sizes, sizes) + np.arange(int(sizes.sum()))
    per_row = np.bincount(ragged_checks.row_of_values(starts), sizes, minlength=len(starts)).astype(np.int64)
    if (row := ragged_checks.first_row(per_row != labels.lengths)) is not None:
        yield int(stored[row]), f"expected spans of {labels.lengths[row]} labels, got {per_row[row]} tokens in spans"
    elif (row := ragged_checks.first_of_values(labels, covered != labels.values)) is not None:
        given_starts = f"starts {starts[row].tolist()}"
        yield int(stored[row]), f"expected spans that cover the labels {labels[row].tolist()}, got {given_starts}"


def _crops(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    columns = block.rows.columns
    if "crop_start" not in columns:
        return
    starts, lengths, rows = columns["crop_start"], columns["crop_length"], columns["input_ids"]
    stored = np.flatnonzero((starts.lengths == 1) & (lengths.lengths == 1))
    first, size = (column.values[column.offsets[stored]].astype(np.int64) for column in (starts, lengths))
    wrong = np.zeros(len(rows), dtype=np.bool_)
    wrong[stored] = (size == 0) | (first + size > rows.lengths[stored] - _FRAME)
    if (row := ragged_checks.first_row(wrong)) is not None:
        crop = f"{lengths[row].tolist()} from {starts[row].tolist()}"
        yield row, f"expected a crop inside the {rows.lengths[row] - _FRAME} content tokens, got {crop}"


_FRAME: Final = 2
_PREFIX: Final = 3
MASKED_CHECKS: Final[tuple[Check, ...]] = (_predictions, _weights, _attention, _label_spans, _crops)
