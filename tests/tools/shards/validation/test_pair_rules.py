"""Rows of two texts: right ones pass and are restored, wrong ones are found and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.pipeline.tokenize.tokenizers import vocabulary_of
from clozeline.tools.shards.validate_shards import validate
from clozeline.tools.shards.validation.ragged_checks import LocatedRows
from clozeline.tools.shards.validation.round_trip import RoundTrip
from clozeline.tools.shards.validation.row_rules import check_rows
from tests.pipeline.token_sets import recipe, run_stage, write_token_set
from tests.tools.rewritten_set import changed

PAIRED = {"next_sentence_prediction": "label_ids", "sentence_order_prediction": "label_ids",
          "translation_lm": "label_ids", "sentence_comparison": "input_ids_b", "text_to_text": "target_ids",
          "mixture": "label_ids", "unilm": "label_ids"}  # fmt: skip
WINDOWS = {"name": "masked_lm", "max_length": 34, "grouping": "sentence_pair"}
ATTENTION = {"name": "masked_lm", "max_length": 34, "attention": "bidirectional"}
ENTRIES = [
    *({"name": name, "max_length": 34} for name in list(PAIRED)[:4]),
    {"name": "text_to_text", "input_length": 40, "target_length": 60},
    {"name": "mixture", "parts": [{**ATTENTION, "label": "a"},
                                  {**ATTENTION, "label": "b", "attention": "left_to_right", "max_length": 30}]},
    {"name": "mixture", "label": "unilm", "parts": [
        {"name": "next_sentence_prediction", "label": "a", "max_length": 34},
        {"name": "next_sentence_prediction", "label": "b", "max_length": 34, "attention": "prefix"},
        {**WINDOWS, "label": "c", "attention": "left_to_right"}]},
]  # fmt: skip


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    write_token_set(folder, [(31 * document) % 90 for document in range(120)])
    made = recipe(folder, ENTRIES, heldout=0.3)
    run_stage(made, "group")
    run_stage(made, "corrupt")
    return folder


def sets(out: Path, label: str) -> tuple[ShardSet, ShardSet]:
    examples = open_shards(out / "corrupt" / label / "train")
    return examples, open_shards(out / "group" / examples.manifest.parents[0].name)


@pytest.mark.parametrize("label", PAIRED)
def test_right_sets_are_whole_and_restored(out: Path, label: str) -> None:
    examples, samples = sets(out, label)
    assert f"{len(examples):,} examples restored" in validate(examples.path, samples.path)
    validate(samples.path)


@pytest.mark.parametrize("label", PAIRED)
def test_a_changed_id_is_found_against_the_sample(out: Path, label: str) -> None:
    examples, samples = sets(out, label)
    rows, name = examples.read_block(0), PAIRED[label]
    ids = rows.columns[name][2]
    wrong = changed(rows, name, 2, len(ids) // 2, 999 if int(ids[len(ids) // 2]) != 999 else 998)
    located = LocatedRows(examples.shard_path(0), 0, wrong)
    check_rows(located, examples.manifest)
    with pytest.raises(IntegrityError, match=r"row 2 \(sample"):
        RoundTrip(examples, samples, vocabulary_of(examples.path, examples.manifest.tokenizer.fingerprint))(located, 0)


@pytest.mark.parametrize(
    ("label", "change", "message"),
    [
        (
            "next_sentence_prediction",
            lambda rows: changed(rows, "sentence_label", 2, 0, 2),
            "expected sentence_label below 2",
        ),
        ("next_sentence_prediction", lambda rows: changed(rows, "segment_starts", 2, 1, 2), "text on both sides"),
        (
            "sentence_order_prediction",
            lambda rows: changed(rows, "segment_starts", 2, 1, 3),
            r"\[SEP\] before the second",
        ),
        ("translation_lm", lambda rows: changed(rows, "languages", 2, 1, 2), r"expected languages below 2, got \["),
    ],
)
def test_wrong_rows_are_found_without_samples(
    out: Path, label: str, change: Callable[[Rows], Rows], message: str
) -> None:
    examples, _ = sets(out, label)
    with pytest.raises(IntegrityError, match=message):
        check_rows(LocatedRows(examples.path, 0, change(examples.read_block(0))), examples.manifest)


@pytest.mark.parametrize(("column", "part"), [("segment_starts", 0), ("segment_starts", 1), ("sentence_label", 0)])
def test_a_row_that_lost_what_its_part_has_is_found(out: Path, column: str, part: int) -> None:
    """Rows of other parts have no such value and pass."""
    examples, _ = sets(out, "unilm")
    rows = examples.read_block(0)
    check_rows(LocatedRows(examples.path, 0, rows), examples.manifest)
    lost = int(np.flatnonzero(rows.fixed["part"] == part)[1])
    lists = [values if row != lost else values[:0] for row, values in enumerate(rows.columns[column])]
    broken = Ragged.from_lists(lists, rows.columns[column].values.dtype)
    with pytest.raises(IntegrityError, match=rf"row {lost} .*expected (one )?{column}"):
        check_rows(LocatedRows(examples.path, 0, Rows(rows.fixed, {**rows.columns, column: broken})), examples.manifest)


def own_partner(rows: Rows) -> Rows:
    uids = rows.columns["partner_document_uid"]
    values = uids.values.copy()
    values[32:48] = rows.fixed["document_uid"][2]
    return Rows(rows.fixed, {**rows.columns, "partner_document_uid": Ragged(values, uids.offsets)})


def long_partner(rows: Rows) -> Rows:
    return Rows(rows.fixed, {**rows.columns, "partner_ids": rows.columns["ids"]})


def unknown_language(rows: Rows) -> Rows:
    return changed(rows, "target_language", 2, 0, 2)


@pytest.mark.parametrize(
    ("label", "change", "message"),
    [
        ("next_sentence_prediction", own_partner, "row 2 .*a partner from another document"),
        ("next_sentence_prediction", long_partner, "row 0 .*a partner of 1 to"),
        ("translation_lm", unknown_language, "row 2 .*expected target_language below 2"),
    ],
)
def test_wrong_samples_are_found(out: Path, label: str, change: Callable[[Rows], Rows], message: str) -> None:
    _, samples = sets(out, label)
    with pytest.raises(IntegrityError, match=message):
        check_rows(LocatedRows(samples.path, 0, change(samples.read_block(0))), samples.manifest)


def test_a_part_that_is_not_there_is_found(out: Path) -> None:
    examples, samples = sets(out, "mixture")
    rows = examples.read_block(0)
    parts = rows.fixed["part"].copy()
    parts[2] = 9
    located = LocatedRows(examples.path, 0, replace(rows, fixed={**rows.fixed, "part": np.asarray(parts)}))
    with pytest.raises(IntegrityError, match=r"row 2 .*cannot be restored"):
        RoundTrip(examples, samples, vocabulary_of(examples.path, examples.manifest.tokenizer.fingerprint))(located, 0)
