"""Check what columns of our own objectives and groupings mean together, beyond their roles."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tasks.readers import facts_of
from clozeline.tools.shards.validation.ragged_checks import (
    Check,
    LocatedRows,
    Problem,
    as_ranks,
    first_of_values,
    first_row,
    rank_in_row,
    row_of_values,
    rows_with,
    special_ids,
)

_FRAME: Final = 2
"""Special tokens of a row of one text."""
_PAIR_FRAME: Final = 3
_PREFIX: Final = 3
"""The attention mode with a prefix."""


def _text_alone(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require that labels are text; the answers of a task also end with a special token."""
    columns = block.rows.columns
    if "label_ids" in columns and facts_of(manifest) is None:
        labels = columns["label_ids"]
        if (row := first_of_values(labels, special_ids(manifest)[labels.values])) is not None:
            yield row, f"expected labels that are text, got a special id among {labels[row].tolist()}"
    if "prediction_order" not in columns:
        return
    order, rows = columns["prediction_order"], columns["input_ids"]
    if (row := first_row(rows_with(order, block, manifest) & (order.lengths == 0))) is not None:
        yield row, "prediction_order is empty"
    predicted = rows.values[order.values + np.repeat(rows.offsets[:-1], order.lengths)]
    if (row := first_of_values(order, special_ids(manifest)[predicted])) is not None:
        yield row, f"expected positions of text in prediction_order, got that of a special token: {order[row].tolist()}"


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
    if (row := first_row(wrong)) is not None:
        values = f"{prefix[row].tolist()} with attention {mode[row].tolist()}"
        yield row, f"expected a prefix_length inside the row for attention {_PREFIX}, else 0; got {values}"


def _label_spans(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require spans that cover the labels, all of them and nothing else."""
    columns = block.rows.columns
    if not {"span_starts", "label_positions"} <= columns.keys():
        return
    # rows of other parts of a mixture have no spans
    stored = np.flatnonzero(columns["span_starts"].lengths)
    names = ("span_starts", "span_lengths", "label_positions")
    starts, lengths, labels = (columns[name].take(stored) for name in names)
    sizes = lengths.values.astype(np.int64)
    # positions that all spans cover, one after the other
    ends = np.cumsum(sizes)
    covered = np.repeat(starts.values.astype(np.int64) - ends + sizes, sizes) + np.arange(int(sizes.sum()))
    per_row = np.bincount(row_of_values(starts), sizes, minlength=len(starts)).astype(np.int64)
    if (row := first_row(per_row != labels.lengths)) is not None:
        yield int(stored[row]), f"expected spans of {labels.lengths[row]} labels, got {per_row[row]} tokens in spans"
    elif (row := first_of_values(labels, covered != labels.values)) is not None:
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
    if (row := first_row(wrong)) is not None:
        crop = f"{lengths[row].tolist()} from {starts[row].tolist()}"
        yield row, f"expected a crop inside the {rows.lengths[row] - _FRAME} content tokens, got {crop}"


def _documents_of_targets(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require the same documents in both texts."""
    starts, documents = (block.rows.columns.get(name) for name in ("target_document_starts", "document_starts"))
    if starts is None or documents is None:
        return
    if (row := first_row(starts.lengths != documents.lengths)) is not None:
        yield row, f"{documents.lengths[row]} documents in input_ids, {starts.lengths[row]} in target_ids"


def _sentinels(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require sentinels in order, each once, in the input and in the target."""
    sentinels = list(manifest.tokenizer.sentinels)
    if not {"input_ids", "target_ids"} <= block.rows.columns.keys() or not sentinels:
        return
    ranks = np.full(manifest.tokenizer.vocab_size, -1, dtype=np.int64)
    ranks[sentinels] = np.arange(len(sentinels))
    for name in ("input_ids", "target_ids"):
        found = as_ranks(block.rows.columns[name], ranks)
        if (row := first_of_values(found, found.values != rank_in_row(found))) is not None:
            yield row, f"expected the sentinels of {name} in order, each once, got {found[row].tolist()}"


def _segments(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require two segments with text, separated by [SEP]."""
    columns = block.rows.columns
    if "segment_starts" not in columns or "input_ids" not in columns or "choice_starts" in columns:
        return
    starts, rows = columns["segment_starts"], columns["input_ids"]
    paired = rows_with(starts, block, manifest)
    if (row := first_row(paired & (starts.lengths != 2))) is not None:
        yield row, f"expected two segment_starts, got {starts[row].tolist()}"
        return
    # the second segment's start per row; rows without segments get a value that passes
    second = np.full(len(rows), _PAIR_FRAME, np.int64)
    second[paired] = starts.values[1::2]
    lengths = np.where(paired, rows.lengths, _PAIR_FRAME + 2)
    if (row := first_row((second < _PAIR_FRAME) | (second + 1 >= lengths))) is not None:
        yield row, f"expected text on both sides of the second segment's start {second[row]} of {rows.lengths[row]}"
        return
    sep = manifest.tokenizer.special_ids.get("sep", -1)
    before = rows.values[np.where(paired, rows.offsets[:-1] + second - 1, 0)]
    if (row := first_row(paired & (before != sep))) is not None:
        yield row, f"expected [SEP] before the second segment, which starts at {second[row]}"


def _partners(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require a partner from another document that is shorter than the window."""
    columns = block.rows.columns
    if "partner_ids" not in columns:
        return
    partners, windows, uids = columns["partner_ids"], columns["ids"], columns["partner_document_uid"]
    if (row := first_row((partners.lengths == 0) | (partners.lengths >= windows.lengths))) is not None:
        yield row, f"expected a partner of 1 to {windows.lengths[row] - 1} tokens, got {partners.lengths[row]}"
    if (row := first_row(uids.lengths != 16)) is not None:
        yield row, f"expected the 16 bytes of the partner's document, got {uids.lengths[row]}"
        return
    same = (uids.values.reshape(-1, 16) == block.rows.fixed["document_uid"]).all(axis=1)
    if (row := first_row(same)) is not None:
        yield row, "expected a partner from another document, got one from the window's own"


COLUMN_RULES: Final[tuple[Check, ...]] = (
    _text_alone, _attention, _label_spans, _crops, _documents_of_targets, _sentinels, _segments, _partners,
)  # fmt: skip
