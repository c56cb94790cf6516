from pathlib import Path

import numpy as np
import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import base_columns
from clozeline.tools.shards.validation.ragged_checks import LocatedRows
from clozeline.tools.shards.validation.row_rules import check_rows
from tests.pipeline.task_files import (
    make_chat_sets,
    make_choice_sets,
    make_question_sets,
    make_sets,
    make_tagged_sets,
    open_split,
)
from tests.shard_sets import IDS, fixed, list_column


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    return open_split(make_sets(tmp_path_factory.mktemp("task")), "dev").manifest


def check(manifest, name, values, dtype):
    lists = {
        "input_ids": Ragged.from_lists([[2, 5, 3]] * len(values), np.uint16),
        name: Ragged.from_lists(values, dtype),
    }
    manifest = manifest.model_copy(update={"columns": (*base_columns(), IDS, list_column(name))})
    rows = Rows(fixed(np.arange(len(values))), lists)
    check_rows(LocatedRows(Path("shard"), 0, rows), manifest)


def changed_is_refused(manifest, lists, change, message):
    """One row of a set with these columns passes, and the same row with a changed column is refused."""
    columns = [spec for spec in manifest.columns if spec.kind == "fixed" or spec.name in lists]
    manifest = manifest.model_copy(update={"columns": tuple(columns)})
    right, wrong = (
        Rows(fixed(np.arange(1)), {name: Ragged.from_lists([row], np.uint32) for name, row in one.items()})
        for one in (lists, lists | change)
    )
    check_rows(LocatedRows(Path("shard"), 0, right), manifest)
    with pytest.raises(IntegrityError, match=message):
        check_rows(LocatedRows(Path("shard"), 0, wrong), manifest)


def regression(manifest):
    assert manifest.objective is not None
    facts = {**manifest.objective.options["task"], "head": "regression", "labels": [], "low": 0.0, "high": 5.0}
    objective = manifest.objective.model_copy(update={"options": {"task": facts}})
    return manifest.model_copy(update={"objective": objective})


def test_right_answers_pass(classes):
    check(classes, "label", [[0], [1]], np.uint16)
    check(regression(classes), "target", [[0.0], [5.0], [3.8]], np.float32)


@pytest.mark.parametrize("values", [[[0], [2]], [[0], []], [[0], [1, 1]]], ids=["unknown", "none", "two"])
def test_wrong_classes(classes, values):
    with pytest.raises(IntegrityError, match=r"row 1 .*expected (one label|label below 2)"):
        check(classes, "label", values, np.uint16)


@pytest.mark.parametrize("values", [[[0, 1], [0, 2]], [[1, 1], [1]]], ids=["no flag", "too few"])
def test_wrong_flags_of_classes(classes, values):
    assert classes.objective is not None
    facts = {**classes.objective.options["task"], "multi_label": True}
    objective = classes.objective.model_copy(update={"options": {"task": facts}})
    several = classes.model_copy(update={"objective": objective})
    check(several, "labels", [[0, 1], [0, 0]], np.uint8)
    with pytest.raises(IntegrityError, match=r"row 1 .*expected labels (of|below)"):
        check(several, "labels", values, np.uint8)


@pytest.mark.parametrize("value", [-0.1, 5.1, np.nan, np.inf], ids=str)
def test_wrong_numbers(classes, value):
    with pytest.raises(IntegrityError, match=r"row 1 .*expected a number from 0 to 5 of the task sst2"):
        check(regression(classes), "target", [[1.0], [value]], np.float32)


TAGGED = {"input_ids": [2, 5, 6, 3], "tag_positions": [1, 2], "tags": [0, 2], "word_numbers": [65535, 0, 1, 65535]}
ASKED = {"input_ids": [2, 5, 6, 3], "answer_span": [1, 2], "answer_places": [0, 1, 2], "owned_places": [2],
         "offsets": [0, 0, 0, 1, 2, 3, 0, 0]}  # fmt: skip
CHOSEN = {"input_ids": [2, 5, 3, 3, 2, 5, 3, 3], "choice_starts": [0, 4], "segment_starts": [0, 3, 4, 7], "choice": [1]}
SAID = {"input_ids": [7, 7, 6, 5], "label_positions": [2, 3], "label_ids": [6, 5]}  # 5 ends an answer
RIGHT = {"tags": (make_tagged_sets, TAGGED), "answers": (make_question_sets, ASKED),
         "choices": (make_choice_sets, CHOSEN), "turns": (make_chat_sets, SAID)}  # fmt: skip


@pytest.fixture(scope="module")
def manifests(tmp_path_factory):
    return {name: open_split(make(tmp_path_factory.mktemp(name)), "dev").manifest for name, (make, _) in RIGHT.items()}


@pytest.mark.parametrize(
    ("task", "column", "values", "message"),
    [
        ("tags", "tags", [0, 3], r"expected tags below 3, got \[0, 3\]"),
        ("tags", "tags", [0], "as many tags as tag_positions, got 1 and 2"),
        ("tags", "tag_positions", [2, 1], "rising tag_positions"),
        ("tags", "tag_positions", [1, 4], "below the 4 tokens of the row's input_ids, got 4"),
        ("tags", "word_numbers", [0, 1, 2], "a word number for each of 4 tokens"),
        ("answers", "answer_span", [2, 1], r"first and last position of an answer among answer_places, got \[2, 1\]"),
        ("answers", "answer_span", [1], "last position of an answer"),
        ("answers", "answer_span", [1, 3], "last position of an answer"),
        ("answers", "answer_places", [0, 1, 1, 2], "once in answer_places"),
        ("answers", "answer_places", [0, 1, 2, 4], "answer_places below the 4 tokens"),
        ("answers", "owned_places", [3], "last position of an answer"),
        ("answers", "offsets", [0, 1], "two offsets for each of 4 tokens, got 2"),
        ("choices", "choice_starts", [0], r"two or more choices and a choice below 1, got \[1\]"),
        ("choices", "choice", [], r"expected one choice, got \[\]"),
        ("choices", "choice", [2], r"a choice below 2, got \[2\]"),
        ("choices", "choice_starts", [1, 4], "choice_starts to start with 0"),
        ("choices", "choice_starts", [0, 8], "choice_starts below the row's 8 tokens, got 8"),
        ("choices", "segment_starts", [0, 4, 2, 6], "rising segment_starts"),
        ("turns", "label_ids", [7, 5], r"the tokens at label_positions 1 and later, got \[7, 5\]"),
        ("turns", "label_positions", [0, 2], "the tokens at label_positions 1 and later"),
        ("turns", "label_positions", [2, 4], "label_positions below the 4 tokens"),
        ("turns", "label_ids", [5], "as many label_ids as label_positions, got 1 and 2"),
    ],
)
def test_a_changed_column_of_a_task_is_refused(manifests, task, column, values, message):
    changed_is_refused(manifests[task], RIGHT[task][1], {column: values}, message)
