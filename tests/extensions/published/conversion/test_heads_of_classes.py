"""Which head a class of transformers has: each head declares its class, and reads the labels of
config.json."""

import pytest

from clozeline.extension_list import HIDE
from clozeline.extensions.published.conversion.task_heads import TaskHeadNames, endings, read_head
from clozeline.model.registries import HEADS
from tests.refusals import refused

PLAIN = TaskHeadNames("classifier")


def labels(count):
    return {"id2label": {str(number): f"class {number}" for number in range(count)}}


@pytest.mark.parametrize(
    ("ending", "plain", "expected"),
    [
        ("ForSequenceClassification", {}, ("classification", 2, False)),
        (
            "ForSequenceClassification",
            {**labels(1), "problem_type": "regression"},
            ("regression", 1, False),
        ),
        (
            "ForSequenceClassification",
            {**labels(1), "problem_type": "single_label_classification"},
            ("classification", 1, False),
        ),
        ("ForMultipleChoice", {"id2label": {"7": "not numbered"}}, ("multiple_choice", 0, False)),
    ],
)
def test_the_head_follows_from_the_class_and_its_labels(ending, plain, expected):
    name, keys = read_head(ending, PLAIN, plain, 0.1)
    options = HEADS.load_class(name).Options(**keys)
    assert (name, options.class_count, keys.get("multi_label", False)) == expected
    assert endings()[name] == ending


@pytest.mark.parametrize(
    ("ending", "plain", "message"),
    [
        (
            "ForSequenceClassification",
            {**labels(3), "problem_type": "regression"},
            "regression of 3 numbers",
        ),
        ("ForQuestionAnswering", labels(3), "expected 2 labels"),
        ("ForTokenClassification", {"id2label": {"1": "a", "2": "b"}}, "id2label: expected names"),
    ],
)
def test_labels_that_no_head_has_are_refused(ending, plain, message):
    with refused(message):
        read_head(ending, PLAIN, plain, 0.1)


def test_a_head_of_another_package_has_no_class(monkeypatch):
    """A subclass computes something else, whatever it inherits."""

    class Focal(HEADS.load_class("classification")):
        """A head of another package."""

    endings.cache_clear()
    monkeypatch.setattr(type(HEADS), "available", lambda _: ["classification", "focal"])
    own = HEADS.load_class
    monkeypatch.setattr(
        type(HEADS), "load_class", lambda _, name: Focal if name == "focal" else own(name)
    )

    try:
        assert endings() == {"classification": "ForSequenceClassification"}
    finally:
        endings.cache_clear()


def test_a_hidden_extension_with_the_head_is_named(monkeypatch):
    monkeypatch.setenv(HIDE, "tasks")
    endings.cache_clear()

    try:
        for read in (
            lambda: read_head("ForTokenClassification", PLAIN, labels(5), 0.1),
            lambda: HEADS.load_class("tagging"),
        ):
            with refused("CLOZELINE_HIDE hides"):
                read()
    finally:
        endings.cache_clear()
