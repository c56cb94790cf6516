"""What all answers share: predictions of several processes, scores that are no numbers, and items without an answer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from clozeline.errors import IntegrityError
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
from clozeline.registry import find, names
from clozeline.tools.runs.inference.unlabeled_rows import build_rows, task_reader
from clozeline.train.answers import answer_of
from clozeline.train.answers._answer import TaskAnswer, merge_shares
from clozeline.train.answers.lm import _prompt_of
from tests.pipeline.task_files import make_chat_sets, open_split

READER: Any = SimpleNamespace(options=SimpleNamespace(prefix="summarize: "))
HEADS: list[Any] = [
    name for name in names("clozeline.train.answers") if issubclass(find("clozeline.train.answers", name), TaskAnswer)
]


def answers(head: Any, **facts: Any) -> TaskAnswer:
    return answer_of(TaskFacts(**({"name": "t", "head": head, "metrics": (), "labels": ("a", "b")} | facts)), head)


def test_a_row_counts_once() -> None:
    assert merge_shares([{2: 1}, {0: 0, 1: 0}], 3) == {2: 1, 0: 0, 1: 0}
    with pytest.raises(IntegrityError, match="1 rows were predicted twice, first row 1"):
        merge_shares([{0: 1, 1: 0}, {1: 0, 2: 1}], 3)
    with pytest.raises(IntegrityError, match="1 of 3 rows were not predicted, first row 2"):
        merge_shares([{0: 1, 1: 0}], 3)


def test_a_head_without_a_file_has_the_answers_of_its_task() -> None:
    facts = TaskFacts(name="t", head="regression", metrics=())
    assert type(answer_of(facts, "my_head")) is type(answer_of(facts, "regression"))


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_scores_that_are_no_numbers_name_no_class(several: bool, wrong: float) -> None:
    answer = answers("classification", multi_label=several)
    with pytest.raises(IntegrityError, match="the weights are unusable"):
        answer.read(torch.tensor([[0.0, wrong]]), {}, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("head", HEADS)
def test_a_table_has_a_column_for_each_field_of_a_record(head: Any) -> None:
    """No field is called like those that `predict` adds, and `predict` can name every input."""
    answer = answers(head)
    assert answer.fields()
    assert not {"row", "id", "rejected"} & answer.fields().keys()
    assert {*answer.fields().values()} <= {str, int, float}
    assert all(answer.input_keys()[0])


def item(head: Any, values: dict[str, list[Any]], key: Any = None) -> Any:
    return answers(head, labels=("a", "b") if head == "classification" else ()).item(values, READER, 4, key)


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
    assert facts is not None
    asked = answer_of(facts, "lm").item({"source": ["a good film"]}, reader, 0, None)
    rows, uids, missing = build_rows(opened, reader, [asked, Rejected("fields", 1)])
    prompt, dot = (found.ids.tolist() for found in tokenizer.encode(["a good film", "."]))
    assert (len(rows), [*uids.values()], missing) == (1, [0], {1: "fields"})
    assert _prompt_of(rows, 0) == [*prompt, *dot]
