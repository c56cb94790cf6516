"""Rules for rows, on sets of which one row is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clozeline.pipeline.rows import Ragged, Rows
from tests.pipeline.token_sets import recipe, run_stage, write_token_set
from tests.tools.rewritten_set import changed
from tests.tools.shards.validation.broken_rows import assert_names_the_row
from tests.tools.small_run import example_sets


def with_fixed(rows: Rows, name: str, row: int, value: int) -> Rows:
    column = rows.fixed[name].copy()
    column[row] = value
    return replace(rows, fixed={**rows.fixed, name: column})


@pytest.mark.parametrize(
    ("label", "change", "message"),
    [
        ("masked_lm", lambda rows: changed(rows, "label_positions", 2, 1, 0), "expected rising label_positions"),
        ("masked_lm", lambda rows: changed(rows, "label_positions", 2, -1, 900), "label_positions below the"),
        ("masked_lm", lambda rows: changed(rows, "label_ids", 2, 0, 3), "labels that are text"),
        ("masked_lm", lambda rows: with_fixed(rows, "language", 2, 7), "language: expected a code below 1, got 7"),
        ("masked_lm", lambda rows: with_fixed(rows, "variant", 2, 9), "variant: expected a code below 2, got 9"),
        ("bart", lambda rows: changed(rows, "sentence_reordering_sentence_order", 2, 0, 5), "to be a permutation"),
        ("bart", lambda rows: changed(rows, "sentence_reordering_sentence_starts", 2, 0, 1), "to start with 0"),
        ("document_rotation", lambda rows: changed(rows, "rotation", 2, 0, 900), "rotation below the"),
        ("text_infilling", lambda rows: changed(rows, "span_lengths", 2, 0, 60), "spans overlap"),
        ("span_corruption", lambda rows: changed(rows, "target_ids", 2, 0, 9), "sentinels of target_ids in order"),
    ],
)
def test_the_first_row_that_breaks_a_rule_is_named(
    shard_sets: Path, label: str, change: Callable[[Rows], Rows], message: str
) -> None:
    assert_names_the_row(example_sets(shard_sets)[label][0], change, message)


@pytest.mark.parametrize(
    ("value", "place", "message"),
    [(0, -1, "never fall"), (900, 1, "target_document_starts below the"), (1, 0, "to start with 0")],
)
def test_documents_of_targets_follow_those_of_inputs(tmp_path: Path, value: int, place: int, message: str) -> None:
    write_token_set(tmp_path, [1 + (7 * document) % 9 for document in range(200)])
    entry = {
        "name": "span_corruption",
        "input_length": 40,
        "cross_documents": False,
        "block_rows": 8,
    }
    made = recipe(tmp_path, [entry])
    for stage in ("group", "corrupt"):
        run_stage(made, stage)
    manifest = tmp_path / "corrupt" / "span_corruption" / "train"
    assert_names_the_row(manifest, lambda rows: changed(rows, "target_document_starts", 2, place, value), message)
    assert_names_the_row(
        manifest, lambda rows: without_last(rows, "target_document_starts", 2), "documents in input_ids"
    )


def without_last(rows: Rows, name: str, row: int) -> Rows:
    lists = [rows.columns[name][number] for number in range(len(rows))]
    lists[row] = lists[row][:-1]
    return replace(rows, columns={**rows.columns, name: Ragged.from_lists(lists, np.uint16)})
