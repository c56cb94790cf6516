"""Check rows of two texts: segments, labels, languages, partners."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.rows import Ragged
from clozeline.pipeline.shards import Manifest
from clozeline.tools.shards.validation.ragged_checks import Check, LocatedRows, Problem, first_row

_PAIR_FRAME: Final = 3


def _segments(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require two segments with text, separated by [SEP], and one label."""
    columns = block.rows.columns
    if (labels := columns.get("sentence_label")) is not None:
        row = first_row(_rows_with(labels, block, manifest) & (labels.lengths != 1))
        if row is not None:
            yield row, f"expected one sentence_label, got {labels[row].tolist()}"
    if "segment_starts" not in columns or "input_ids" not in columns or "choice_starts" in columns:
        return
    starts, rows = columns["segment_starts"], columns["input_ids"]
    paired = _rows_with(starts, block, manifest)
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


def _rows_with(column: Ragged, block: LocatedRows, manifest: Manifest) -> NDArray[np.bool_]:
    """Return the rows that must have a column: in a mixture, all rows of parts in which some row has it."""
    if manifest.objective is None or manifest.objective.name != "mixture":
        return np.ones(len(column), np.bool_)
    part = block.rows.fixed["part"]
    return np.isin(part, part[column.lengths > 0])


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


PAIR_CHECKS: Final[tuple[Check, ...]] = (_segments, _partners)
