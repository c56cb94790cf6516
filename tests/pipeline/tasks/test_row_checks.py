"""Rows of train in other splits, contradicting labels and repeated ids, against slow searches over pairs of rows."""

from __future__ import annotations

import random

import pytest

from clozeline.pipeline.tasks.readers import (
    Choices,
    LabeledText,
    Question,
    Rejected,
    SourceTarget,
    TaggedWords,
    TaskItem,
)
from clozeline.pipeline.tasks.splits import check_rows, exclude_overlaps, keys_of


def labelled(seed: int, count: int = 40) -> list[TaskItem | Rejected]:
    draw = random.Random(seed)
    rows: list[TaskItem | Rejected] = [
        LabeledText((f"text {draw.randint(0, 30)}", f"other {draw.randint(0, 1)}"), draw.randint(0, 1), None, index)
        for index in range(count)
    ]
    return [*rows, Rejected("fields", count)]


@pytest.mark.parametrize("seed", range(4))
def test_counts_equal_slow_searches(seed: int) -> None:
    items, train = labelled(seed), labelled(seed + 100, 3)
    rows, learnt = ([row for row in side if isinstance(row, LabeledText)] for side in (items, train))
    shared = [row for row in rows if any(set(row.texts) & set(other.texts) for other in learnt)]
    disagreeing = [row for row in rows if any(row.texts == one.texts and row.label != one.label for one in rows)]
    assert check_rows(items, keys_of(train)) == {"also_in_train": len(shared), "contradicting": len(disagreeing)}
    assert len(shared) == sum(one == Rejected("excluded", one.index) for one in exclude_overlaps(items, keys_of(train)))
    assert check_rows(items, None) == {"contradicting": len(disagreeing)}


def test_labels_of_each_type_of_row() -> None:
    tagged = [
        TaggedWords(("a", "b"), (0, 1), 0),
        TaggedWords(("a", "b"), (0, 0), 1),
        TaggedWords(("A", "b"), (1, 1), 2),
    ]
    chosen = [Choices("a", ("b", "c"), 0, 0), Choices("a", ("b", "c"), 1, 1), Choices("a", ("b", "d"), 1, 2)]
    numbers = [LabeledText(("a", "b"), None, 1.0, 0), LabeledText(("a", " b"), None, 2.0, 1)]
    assert check_rows(tagged, None) == {"contradicting": 2}
    assert check_rows(chosen, None) == {"contradicting": 2}
    assert check_rows(numbers, None) == {"contradicting": 2}
    assert check_rows([SourceTarget("a", ("b",), "", 0), SourceTarget("a", ("c",), "", 1)], None) == {}
    assert check_rows([Rejected("fields", 0)], set()) == {}


def test_repeated_ids_of_questions() -> None:
    asked = [Question("who", "a text", (), key, index) for index, key in enumerate("abaca")]
    assert check_rows(asked, keys_of([Question("why", "A  text", (), "z", 0)])) == {
        "also_in_train": 5,
        "repeated_id": 2,
    }


def test_a_numbered_document_of_another_file_is_another_document() -> None:
    """CoNLL's documents have no names: the third of dev is not the third of train."""
    train = [TaggedWords(("one",), (0,), 0, "document 3")]
    dev = [TaggedWords(("two",), (0,), 0, "document 3"), TaggedWords(("One",), (0,), 1, "document 4")]
    assert exclude_overlaps(dev, keys_of(train)) == [dev[0], Rejected("excluded", 1)]
    assert check_rows(dev, keys_of(train))["also_in_train"] == 1
