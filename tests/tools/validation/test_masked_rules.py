"""Rules for columns beside labels, on rows whose columns are changed by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import IntegrityError
from pipeline.rows import Ragged, Rows
from pipeline.shards import open_shards
from tests.train.masked_set import write_masked_sets
from tools.validation.invariants import check_rows
from tools.validation.located_rows import LocatedRows


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (0.0, "a label_weight above 0"),
        (-1.0, "above 0"),
        (np.nan, "above 0"),
        (np.inf, "above 0"),
        (None, "one label_weight"),
    ],
)
def test_weights_are_one_a_label_finite_and_above_0(tmp_path: Path, weight: float | None, message: str) -> None:
    shards = open_shards(write_masked_sets(tmp_path, rows=16, heldout=4))
    rows = shards.read_block(0)
    labels = rows.columns["label_ids"]
    weights = Ragged(np.full(len(labels.values), 0.5, np.float32), labels.offsets)
    located = LocatedRows(shards.path, 0, Rows(rows.fixed, {**rows.columns, "label_weight": weights}))
    check_rows(located, shards.manifest)
    if weight is None:
        wrong = weights.take(np.arange(len(rows))[::-1])
    else:
        weights.values[int(weights.offsets[3])] = weight
        wrong = weights
    located = LocatedRows(shards.path, 0, Rows(rows.fixed, {**rows.columns, "label_weight": wrong}))
    with pytest.raises(IntegrityError, match=message if weight is None else f"row 3 .*{message}"):
        check_rows(located, shards.manifest)
