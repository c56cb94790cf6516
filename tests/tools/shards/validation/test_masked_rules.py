"""Rules for the columns beside labels, on sets of which one row is changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.validation.invariants import check_rows
from clozeline.tools.shards.validation.ragged_checks import LocatedRows
from tests.tools.rewritten_set import changed, repeated
from tests.tools.shards.validation.broken_rows import assert_names_the_row
from tests.tools.small_run import example_sets
from tests.train.masked_set import write_masked_sets


@pytest.mark.parametrize(
    ("label", "change", "message"),
    [
        ("permuted_lm", lambda rows: changed(rows, "prediction_order", 2, 0, 0), "that of a special token"),
        ("permuted_lm", lambda rows: changed(rows, "prediction_order", 2, 0, 900), "prediction_order below the"),
        ("permuted_lm", lambda rows: repeated(rows, "prediction_order"), "each position once"),
        ("unilm", lambda rows: changed(rows, "attention", 2, 0, 4), "attention: expected codes below 4, got [4]"),
        ("unilm", lambda rows: changed(rows, "attention", 2, 0, 1), "else 0; got"),
        ("unilm", lambda rows: changed(rows, "prefix_length", 2, 0, 900), "prefix_length inside the row"),
        ("span_boundary", lambda rows: changed(rows, "span_starts", 2, -1, 47), "spans that cover the labels"),
        ("span_boundary", lambda rows: changed(rows, "span_lengths", 2, -1, 1000), "tokens in spans"),
        ("corrective_lm", lambda rows: changed(rows, "crop_start", 2, 0, 46), "a crop inside the"),
        ("corrective_lm", lambda rows: changed(rows, "crop_length", 2, 0, 0), "a crop inside the"),
    ],
)
def test_the_first_row_that_breaks_a_rule_is_named(
    shard_sets: Path, label: str, change: Callable[[Rows], Rows], message: str
) -> None:
    assert_names_the_row(example_sets(shard_sets)[label][0], change, message)


@pytest.mark.parametrize("name", ["label_weight", "label_count"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_weights_and_counts_are_finite_and_above_0(tmp_path: Path, name: str, value: float) -> None:
    shards = open_shards(write_masked_sets(tmp_path, rows=16, heldout=4))
    rows = shards.read_block(0)
    column = Ragged(np.full(len(rows), 0.5, np.float32), np.arange(len(rows) + 1))
    located = LocatedRows(shards.path, 0, Rows(rows.fixed, {**rows.columns, name: column}))
    check_rows(located, shards.manifest)
    column.values[3] = value
    with pytest.raises(IntegrityError, match=f"row 3 .*a {name} above 0"):
        check_rows(located, shards.manifest)


def test_a_row_has_one_weight(tmp_path: Path) -> None:
    shards = open_shards(write_masked_sets(tmp_path, rows=16, heldout=4))
    rows = shards.read_block(0)
    column = Ragged.from_lists([[0.5, 0.5] if row == 2 else [0.5] for row in range(len(rows))], np.float32)
    with pytest.raises(IntegrityError, match=r"row 2 .*one label_weight in a row with labels"):
        check_rows(
            LocatedRows(shards.path, 0, Rows(rows.fixed, {**rows.columns, "label_weight": column})), shards.manifest
        )
