"""Rules for rows, on sets of which one row is changed."""

import re
from pathlib import Path

import numpy as np
import pytest

from clozeline import plugins
from clozeline.errors import IntegrityError
from clozeline.pipeline.corrupt.objectives.mixture import Mixture
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import base_columns, open_shards
from clozeline.tools.shards.validate_shards import validate
from clozeline.tools.shards.validation.located_rows import LocatedRows, check_block
from tests.pipeline.task_files import (
    make_chat_sets,
    make_choice_sets,
    make_question_sets,
    make_tagged_sets,
    open_split,
)
from tests.pipeline.token_sets import recipe, run_stage, write_token_set
from tests.shard_sets import IDS, fixed, list_column
from tests.tools.rewritten_set import changed, repeated, with_fixed
from tests.tools.small_run import example_sets


@pytest.mark.parametrize(
    ("label", "change", "message"),
    [
        (
            "masked_lm",
            lambda rows: changed(rows, "label_positions", 2, 1, 0),
            "expected rising label_positions",
        ),
        (
            "masked_lm",
            lambda rows: with_fixed(rows, "language", 2, 7),
            "language below 1, got 7",
        ),
        (
            "masked_lm",
            lambda rows: with_fixed(rows, "variant", 2, 9),
            "variant below 2, got 9",
        ),
        (
            "permuted_lm",
            lambda rows: changed(rows, "prediction_order", 2, 0, 900),
            "prediction_order below the",
        ),
        (
            "permuted_lm",
            lambda rows: repeated(rows, "prediction_order"),
            "each of prediction_order once",
        ),
        (
            "unilm",
            lambda rows: changed(rows, "attention", 2, 0, 4),
            "expected attention below 4, got 4",
        ),
    ],
)
def test_the_first_row_that_breaks_a_rule_is_named(shard_sets, label, change, message):
    """The rows of a block pass.

    Once the second or third of them is changed, it is named with the rule.
    """
    shards = open_shards(example_sets(shard_sets)[label][0])
    check_block(LocatedRows(shards.path, 1, shards.read_block(1)), shards.manifest)
    with pytest.raises(IntegrityError) as caught:
        check_block(LocatedRows(shards.path, 1, change(shards.read_block(1))), shards.manifest)

    assert message in str(caught.value)
    assert re.search(r"block 1: .* in row [12] \(sample ", str(caught.value))


PAIRED = {
    "next_sentence_prediction": "label_ids",
    "sentence_order_prediction": "label_ids",
    "translation_lm": "label_ids",
    "sentence_comparison": "input_ids_b",
    "text_to_text": "target_ids",
    "mixture": "label_ids",
    "unilm": "label_ids",
    "own": "label_ids",
}
WINDOWS = {"name": "masked_lm", "max_length": 34, "grouping": "sentence_pair"}
ATTENTION = {"name": "masked_lm", "max_length": 34, "attention": "bidirectional"}
ENTRIES = [
    *({"name": name, "max_length": 34} for name in list(PAIRED)[:4]),
    {"name": "text_to_text", "input_length": 40, "target_length": 60},
    {
        "name": "mixture",
        "parts": [
            {**ATTENTION, "label": "a"},
            {**ATTENTION, "label": "b", "attention": "left_to_right", "max_length": 30},
        ],
    },
    {
        "name": "mixture",
        "label": "unilm",
        "parts": [
            {"name": "next_sentence_prediction", "label": "a", "max_length": 34},
            {
                "name": "next_sentence_prediction",
                "label": "b",
                "max_length": 34,
                "attention": "prefix",
            },
            {**WINDOWS, "label": "c", "attention": "left_to_right"},
        ],
    },
]
ENTRIES.append({**ENTRIES[-1], "name": f"{__name__}:OwnMixture", "label": "own"})
plugins.allow(f"{__name__}:OwnMixture")


class OwnMixture(Mixture):
    """A mixture by another name."""


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    write_token_set(folder, [(31 * document) % 90 for document in range(120)])
    made = recipe(folder, ENTRIES, heldout=0.3)
    run_stage(made, "group")
    run_stage(made, "corrupt")
    return folder


def sets(out, label):
    examples = open_shards(out / "corrupt" / label / "train")
    return examples, open_shards(out / "group" / examples.manifest.parents[0].name)


@pytest.mark.parametrize("label", PAIRED)
def test_right_sets_are_whole_and_restored(out, label):
    examples, samples = sets(out, label)
    assert validate(examples.path, samples.path).restored == len(examples)
    validate(samples.path)


@pytest.mark.parametrize(
    ("label", "change", "message"),
    [
        (
            "next_sentence_prediction",
            lambda rows: changed(rows, "sentence_label", 2, 0, 2),
            "expected sentence_label below 2",
        ),
        (
            "translation_lm",
            lambda rows: changed(rows, "languages", 2, 1, 2),
            "expected languages below 2, got 2",
        ),
    ],
)
def test_wrong_rows_are_found_without_samples(out, label, change, message):
    examples, _ = sets(out, label)
    with pytest.raises(IntegrityError, match=message):
        check_block(
            LocatedRows(examples.path, 0, change(examples.read_block(0))), examples.manifest
        )


@pytest.mark.parametrize(
    ("column", "part"), [("segment_starts", 0), ("segment_starts", 1), ("sentence_label", 0)]
)
def test_a_row_that_lost_what_its_part_has_is_found(out, column, part):
    """Rows of other parts have no such value and pass."""
    examples, _ = sets(out, "unilm")
    rows = examples.read_block(0)
    check_block(LocatedRows(examples.path, 0, rows), examples.manifest)
    lost = int(np.flatnonzero(rows.fixed["part"] == part)[1])
    lists = [
        values if row != lost else values[:0] for row, values in enumerate(rows.columns[column])
    ]
    broken = Ragged.from_lists(lists, rows.columns[column].values.dtype)

    with pytest.raises(
        IntegrityError, match=rf"expected one (or more )?{column}, got 0 in row {lost} "
    ):
        check_block(
            LocatedRows(examples.path, 0, RowBatch(rows.fixed, {**rows.columns, column: broken})),
            examples.manifest,
        )


def test_wrong_samples_are_found(out):
    _, samples = sets(out, "translation_lm")
    wrong = changed(samples.read_block(0), "target_language", 2, 0, 2)
    with pytest.raises(IntegrityError, match="target_language below 2"):
        check_block(LocatedRows(samples.path, 0, wrong), samples.manifest)


def check(manifest, name, values, dtype):
    lists = {
        "input_ids": Ragged.from_lists([[2, 5, 3]] * len(values), np.uint16),
        name: Ragged.from_lists(values, dtype),
    }
    manifest = manifest.model_copy(
        update={
            "columns": (
                *base_columns(),
                IDS,
                list_column(name),
            )
        }
    )
    rows = RowBatch(fixed(np.arange(len(values))), lists)
    check_block(LocatedRows(Path("shard"), 0, rows), manifest)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        *(("label", [[0], [1]], values) for values in ([2], [], [1, 1])),
        *(("labels", [[0, 1], [0, 0]], values) for values in ([0, 2], [1])),
        *(("target", [[0.0], [5.0], [3.8]], [value]) for value in (-0.1, 5.1, np.nan, np.inf)),
    ],
)
def test_answers_are_those_of_the_task(runs, kind, right, wrong):
    """One class, a flag of each class, or a number of the range."""
    classes = open_split(runs("classes") / "out" / "tasks" / "sst2", "dev").manifest
    facts = dict(classes.objective.options["task"])
    facts |= {"label": {}, "labels": {"multi_label": True}}.get(
        kind, {"head": "regression", "labels": [], "low": 0.0, "high": 5.0}
    )
    objective = classes.objective.model_copy(update={"options": {"task": facts}})
    manifest = classes.model_copy(update={"objective": objective})
    check(manifest, kind, right, np.float32)
    words = r"one label|label below 2|labels (of|below)|a number from 0 to 5 of the task sst2"
    with pytest.raises(
        IntegrityError, match=rf"expected ({words}).* in row 1 |row 1 .*expected ({words})"
    ):
        check(manifest, kind, [right[0], wrong], np.float32 if kind == "target" else np.uint16)


TAGGED = {
    "input_ids": [2, 5, 6, 3],
    "tag_positions": [1, 2],
    "tags": [0, 2],
    "word_numbers": [65535, 0, 1, 65535],
}
ASKED = {
    "input_ids": [2, 5, 6, 3],
    "answer_span": [1, 2],
    "answer_places": [0, 1, 2],
    "owned_places": [2],
    "offsets": [0, 0, 0, 1, 2, 3, 0, 0],
}
CHOSEN = {
    "input_ids": [2, 5, 3, 3, 2, 5, 3, 3],
    "choice_starts": [0, 4],
    "segment_starts": [0, 3, 4, 7],
    "choice": [1],
}
# 5 ends an answer
SAID = {
    "input_ids": [7, 7, 6, 5],
    "label_positions": [2, 3],
    "label_ids": [6, 5],
}
RIGHT = {
    "tags": (make_tagged_sets, TAGGED),
    "answers": (make_question_sets, ASKED),
    "choices": (make_choice_sets, CHOSEN),
    "turns": (make_chat_sets, SAID),
}


@pytest.fixture(scope="module")
def manifests(tmp_path_factory):
    return {
        name: open_split(make(tmp_path_factory.mktemp(name)), "dev").manifest
        for name, (make, _) in RIGHT.items()
    }


@pytest.mark.parametrize(
    ("task", "column", "values", "message"),
    [
        ("tags", "tags", [0, 3], "expected tags below 3, got 3"),
        ("tags", "tag_positions", [2, 1], "rising tag_positions"),
        ("tags", "word_numbers", [0, 1, 2], "a word number for each of 4 tokens"),
        (
            "answers",
            "answer_span",
            [2, 1],
            r"first and last position of an answer among answer_places, got \[2, 1\]",
        ),
        ("answers", "answer_span", [1], "last position of an answer"),
        ("answers", "answer_span", [1, 3], "last position of an answer"),
        ("answers", "answer_places", [0, 1, 1, 2], "each of answer_places once"),
        ("answers", "owned_places", [3], "last position of an answer"),
        ("answers", "offsets", [0, 1], "two offsets for each of 4 tokens, got 2"),
        ("choices", "choice_starts", [0], r"two or more choices and a choice below 1, got \[1\]"),
        ("choices", "choice", [], "expected one choice, got 0"),
        ("choices", "choice", [2], r"a choice below 2, got \[2\]"),
        ("choices", "choice_starts", [1, 4], "choice_starts that start with 0"),
        ("choices", "segment_starts", [0, 4, 2, 6], "rising segment_starts"),
        ("turns", "label_ids", [7, 5], r"the tokens at label_positions 1 and later, got \[7, 5\]"),
        ("turns", "label_positions", [0, 2], "the tokens at label_positions 1 and later"),
    ],
)
def test_a_changed_column_of_a_task_is_refused(manifests, task, column, values, message):
    """One row of a set with these columns passes, and the same row with a changed column is
    refused."""
    manifest = manifests[task]
    lists = RIGHT[task][1]
    columns = [spec for spec in manifest.columns if spec.kind == "fixed" or spec.name in lists]
    manifest = manifest.model_copy(update={"columns": tuple(columns)})
    right, wrong = (
        RowBatch(
            fixed(np.arange(1)),
            {name: Ragged.from_lists([row], np.uint32) for name, row in one.items()},
        )
        for one in (lists, lists | {column: values})
    )

    check_block(LocatedRows(Path("shard"), 0, right), manifest)
    with pytest.raises(IntegrityError, match=message):
        check_block(LocatedRows(Path("shard"), 0, wrong), manifest)
