"""Rows without labels: each cell that is no input has a reason."""

from __future__ import annotations

from pathlib import Path
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
    facts_of,
)
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.runs.evaluation.generation_scores import _prompt_of
from clozeline.tools.runs.evaluation.labeled_texts import task_reader
from clozeline.tools.runs.inference.unlabeled_rows import _item_of, build_rows
from tests.pipeline.task_files import make_chat_sets, open_split

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


def test_a_source_is_a_message_of_the_run_template(tmp_path: Path) -> None:
    """The answer is generated after what the template writes before it, as in training."""
    sets = make_chat_sets(tmp_path)
    train, tokenizer = open_split(sets, "train"), load_tokenizer(tmp_path / "out" / "tokenizer" / "tokenizer")
    facts = facts_of(train.manifest)
    opened: Any = SimpleNamespace(train=train, facts=facts, trained=SimpleNamespace(tokenizer=tokenizer))
    reader = task_reader(train.manifest)
    asked = _item_of({"source": ["a good film"]}, opened, reader, 0, None)
    rows, uids, missing = build_rows(opened, reader, [asked, Rejected("fields", 1)])
    prompt, dot = (found.ids.tolist() for found in tokenizer.encode(["a good film", "."]))
    assert (len(rows), [*uids.values()], missing) == (1, [0], {1: "fields"})
    assert _prompt_of(rows, 0) == [*prompt, *dot]
