"""Rows without labels: each cell that is no input has a reason."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clozeline.pipeline.tasks.readers import (
    Choices,
    LabeledText,
    Question,
    Rejected,
    SourceTarget,
    TaggedWords,
    TaskFacts,
)
from clozeline.tools.runs.inference.unlabeled_rows import _item_of

READER: Any = SimpleNamespace(options=SimpleNamespace(prefix="summarize: "))


def item(head: Any, values: dict[str, list[Any]], key: Any = None) -> Any:
    labels = ("a", "b") if head == "classification" else ()
    opened: Any = SimpleNamespace(facts=TaskFacts(name="t", head=head, metrics=(), labels=labels))
    return _item_of(values, opened, READER, 4, key)


@pytest.mark.parametrize(
    ("head", "values", "expected"),
    [
        ("classification", {"text": [" a ", None, "b"], "text_pair": ["c"]}, LabeledText(("a b", "c"), 0, 0.0, 4)),
        ("regression", {"text": ["a"]}, LabeledText(("a",), None, 0.0, 4)),
        ("classification", {"text": [" "]}, Rejected("empty_text", 4)),
        ("classification", {"text": [7]}, Rejected("fields", 4)),
        ("tagging", {"words": ["in Rome"]}, TaggedWords(("in", "Rome"), (0, 0), 4)),
        ("tagging", {"words": [["a", " "]]}, Rejected("fields", 4)),
        ("tagging", {"words": [None]}, Rejected("empty_text", 4)),
        ("span", {"question": ["Who?"], "context": [" Ada. "]}, Question("Who?", " Ada. ", (), "4", 4)),
        ("multiple_choice", {"context": ["a"], "choices": [["b", "c "]]}, Choices("a", ("b", "c"), 0, 4)),
        ("multiple_choice", {"context": ["a"], "choices": ["b", "c"], "begin": ["He"]},
         Choices("a", ("He b", "He c"), 0, 4)),
        ("multiple_choice", {"context": ["a"], "choices": [["b"]]}, Rejected("fields", 4)),
        ("lm", {"source": ["long"]}, SourceTarget("long", ("long",), "summarize: ", 4)),
    ],
)  # fmt: skip
def test_rows_of_each_head(head: str, values: dict[str, list[Any]], expected: object) -> None:
    assert item(head, values) == expected


def test_a_question_keeps_its_id() -> None:
    assert item("span", {"question": ["Who?"], "context": ["Ada."]}, "q7").key == "q7"
