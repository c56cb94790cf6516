"""Rows that break a rule of their task, labels of a set, and records of predictions."""

from dataclasses import replace

import numpy as np
import pytest

from clozeline.extensions.tasks.heads.classification import (
    ClassificationHead,
    ClassificationTaskHead,
)
from clozeline.extensions.tasks.heads.multiple_choice import MultipleChoiceTaskHead
from clozeline.extensions.tasks.heads.regression import RegressionTaskHead
from clozeline.extensions.tasks.heads.span import SpanTaskHead
from clozeline.extensions.tasks.heads.tagging import TaggingTaskHead
from clozeline.extensions.tasks.readers import Rejected, TaggedWords, TaskMetadata
from clozeline.extensions.tasks.rows import rows_of
from clozeline.pipeline.rows import Ragged
from tests.extensions.tasks.heads.task_metadata import NUMBER, ONE, SEVERAL
from tests.model.small_models import small_config
from tests.refusals import refused

TAGS = TaskMetadata(name="t", head="tagging", labels=("O", "B-X"), metrics=("entity_f1",))


SPANS = TaskMetadata(name="t", head="span", metrics=("f1",), texts=2)


WRITTEN = TaskMetadata(name="t", head="lm", metrics=("bleu",))


CHOICES = TaskMetadata(name="t", head="multiple_choice", metrics=("accuracy",), texts=2)


IDS = [[2, 7, 3], [2, 8, 3], [2, 9, 3], [2, 7, 3]]


ONES = [[1], [1], [1], [1]]


@pytest.mark.parametrize(
    ("facts", "columns", "wrong"),
    [
        (SEVERAL, {"labels": [[0, 1, 1], [1, 0], [0, 0, 0], []]}, [1, 3]),
        (ONE, {"label": ONES}, []),
        (
            CHOICES,
            {"choice_starts": [[0], [0, 1], [0, 1], [0, 1, 2]], "choice": [[0], [2], [1], [2]]},
            [0, 1],
        ),
        (TAGS, {"word_numbers": [[0, 0, 0], [0, 0], [0] * 3, [0] * 4]}, [1, 3]),
        (
            WRITTEN,
            {"label_positions": [[1, 2], [1], [0], [2]], "label_ids": [[7, 3], [9], [2], [3]]},
            [1, 2],
        ),
        (WRITTEN, {}, []),
        (NUMBER, {"target": [[0.0], [1.0], [-0.1], [np.nan]]}, [2, 3]),
        (NUMBER, {"target": [[1.1], [1.0], [0.5], [0.0]]}, [0]),
        (
            SPANS,
            {
                "offsets": [[0] * 6, [0] * 5, [0] * 6, [0] * 6],
                "answer_places": [[0, 1], [0, 1], [0], [0, 1]],
                "owned_places": [[1], [1], [0], [1, 2]],
                "answer_span": [[0, 1], [1, 1], [1, 1], [1, 0]],
            },
            [1, 2, 3],
        ),
        (
            SPANS,
            {
                "offsets": [[0] * 6] * 4,
                "answer_places": [[0, 1]] * 4,
                "owned_places": ONES,
                "answer_span": [[0, 0], [1], [1, 0], [1, 1]],
            },
            [1, 2],
        ),
    ],
)
def test_rows_that_break_a_rule_of_their_task_are_named(facts, columns, wrong):
    kinds = {"target": np.float32}
    columns = {
        name: Ragged.from_lists(values, kinds.get(name, np.uint16))
        for name, values in ({"input_ids": IDS} | columns).items()
    }

    architecture = "decoder" if "label_ids" in columns else "encoder_decoder"
    found = rows_of(facts.head, architecture).problems(facts, columns)
    assert [row for row, _ in found] == wrong


@pytest.mark.parametrize(
    ("keys", "facts", "expected"),
    [
        ({}, ONE, {"labels": ("0", "1")}),
        ({"labels": ("0", "1")}, ONE, {"labels": ("0", "1")}),
        ({"classes": 3}, SEVERAL, {"classes": 3, "labels": ("a", "b", "c"), "multi_label": True}),
        ({"multi_label": True}, ONE, {"labels": ("0", "1"), "multi_label": True}),
        ({"classes": 2}, NUMBER, {"classes": 2}),
        ({"labels": ("1", "0")}, ONE, "expected 0, 1, in the order of SET"),
        ({"classes": 3}, ONE, "SET has 2 classes"),
    ],
)
def test_a_head_takes_the_labels_of_its_set(keys, facts, expected):
    model = replace(
        small_config("encoder"), heads={"classification": ClassificationHead.Options(**keys)}
    )

    if isinstance(expected, str):
        with refused(expected):
            ClassificationTaskHead(facts).configure(model, "classification", "SET")
    else:
        assert ClassificationTaskHead(facts).configure(
            model, "classification", "SET"
        ) == ClassificationHead.Options(**expected)


def test_records_say_the_class_and_how_sure_the_model_is():
    one = ClassificationTaskHead(ONE)
    several = ClassificationTaskHead(SEVERAL)
    sure = 0.875
    chances = [1 - sure, sure]

    assert one.record(chances) == {
        "label": "1",
        "probability": sure,
        "probabilities": {"0": 1 - sure, "1": sure},
    }
    assert one.certain_classes(chances) == ((1,), sure)

    record = several.record([0.25, sure, 0.5])

    assert (record["labels"], record["probabilities"]["b"]) == (["b"], sure)
    assert several.certain_classes([0.9375, sure, 0.0625]) == ((0, 1), sure)
    assert [*several.classes(["a"], record)] == [(["a"], ["b"])]
    assert [*one.classes("0", {"label": "1"})] == [(["0"], ["1"])]
    assert [one.show(1), several.show([1, 0, 1])] == ["1", ["a", "c"]]
    assert one.values({1: chances, 0: chances[::-1]}).tolist() == [0, 1]
    assert several.values({0: [0.25, sure, 0.5]}).tolist() == [[0, 1, 0]]

    record = MultipleChoiceTaskHead(CHOICES).record(chances)

    assert record == {"choice": 1, "probabilities": chances}
    assert [MultipleChoiceTaskHead(CHOICES).error(gold, record) for gold in (1, 0)] == [0.0, sure]
    assert RegressionTaskHead(NUMBER).error(2.0, RegressionTaskHead(NUMBER).record(0.5)) == 1.5

    tags = {"words": ["a", "b", "c"], "tags": ["O", "B-X", "O"]}

    assert TaggingTaskHead(TAGS).error(["O", "O", "O"], tags) == pytest.approx(1 / 3)
    assert [*TaggingTaskHead(TAGS).classes(["O", "O"], {"tags": ["O", "B-X"]})] == [
        (("O",), ("O",)),
        (("O",), ("B-X",)),
    ]
    assert TaggingTaskHead(TAGS).empty(TaggedWords(("a", "b"), (0, 1), 0)) == {
        "words": ["a", "b"],
        "tags": ["O", "O"],
    }
    assert (
        TaggingTaskHead(TAGS).empty(Rejected("fields", 0))
        == ClassificationTaskHead(ONE).empty(Rejected("fields", 0))
        == {}
    )
    assert SpanTaskHead(SPANS).error(["a cat", "dogs"], {"answer": "cat"}) == 0.0
