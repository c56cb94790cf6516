"""Order, variants, totals and kinds, on sets whose hashes are right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clozeline.pipeline.rows import Rows
from clozeline.tools.shards.validate_shards import validate
from tests.shard_sets import change_manifest
from tests.tools.rewritten_set import at, changed, fails, rewrite
from tests.tools.small_run import example_sets


def swapped(rows: Rows) -> Rows:
    order = np.arange(len(rows))
    order[[3, 4]] = [4, 3]
    return rows.take(order)


def with_fixed(rows: Rows, name: str, row: int, value: int) -> Rows:
    column = rows.fixed[name].copy()
    column[row] = value
    return replace(rows, fixed={**rows.fixed, name: column})


@pytest.mark.parametrize(
    ("label", "change", "message"),
    [
        ("masked_lm", lambda rows: with_fixed(rows, "variant", 2, 1), "expected variant 0 in this shard"),
        ("masked_lm", swapped, "in order of their uid's hash"),
        (
            "masked_lm",
            lambda rows: rows.take(np.array([0, 1, 2, 2, *range(4, len(rows))])),
            "the row before has the same",
        ),
    ],
)
def test_rows_in_a_wrong_shard_or_order_are_found(output, capsys, label, change, message):
    manifest, _ = rewrite(output, label, at(1, change))
    error = fails(capsys, manifest)
    assert message in error
    assert "block 1: row" in error


def test_ids_beyond_the_vocabulary_are_found(output, capsys):
    manifest, _ = rewrite(output, "causal_lm", at(1, lambda rows: changed(rows, "input_ids", 2, 0, 600)))
    assert "block 1: expected ids below the vocabulary's 600 in input_ids, got 600" in fails(capsys, manifest)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda totals: totals.update(tokens_by_language={"en": totals["tokens"] - 1}), "totals.tokens_by_language"),
        (lambda totals: totals.update(tokens_by_language={"de": totals["tokens"]}), "counted {'en': "),
        (
            lambda totals: totals["tokens_by_source"].update(default=1),
            "totals.tokens_by_source: expected {'default': 1}",
        ),
        (lambda totals: totals.update(tokens=totals["tokens"] + 1), "totals.tokens: expected"),
    ],
)
def test_totals_are_counted_again(output, capsys, change, message):
    assert validate(output / "encode").startswith("OK: ")
    change_manifest(output / "encode", lambda plain: change(plain["totals"]))
    assert message in fails(capsys, output / "encode")


def test_a_kind_without_its_column_is_no_such_set(output, capsys):
    change_manifest(output / "encode", lambda plain: plain["columns"][3].update(name="tokens"))
    assert "there is no list column token_ids" in fails(capsys, output / "encode")


def test_the_longest_row_is_measured(output, capsys):
    manifest, _ = example_sets(output)["causal_lm"]
    change_manifest(manifest.parent, lambda plain: plain.update(max_length=plain["max_length"] + 1))
    assert "max_length: expected 49, counted 48" in fails(capsys, manifest)
