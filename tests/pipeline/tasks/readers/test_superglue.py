from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Choices, LabeledText, Question, Rejected
from tests.pipeline.tasks.readers.reading import items_of, reader_of, reasons, written

WSC = {"text": "Mark told Pete lies, which Pete had in his book . He was cross.", "label": True,
       "target": {"span1_text": "Mark", "span1_index": 0, "span2_text": "He", "span2_index": 11}}  # fmt: skip
ROWS: dict[str, tuple[Any, tuple[str, ...], int]] = {
    "boolq": ({"question": "is it", "passage": "It is.", "label": True}, ("is it", "It is."), 1),
    "cb": ({"premise": "a", "hypothesis": "b", "label": "neutral"}, ("a", "b"), 2),
    "rte": ({"premise": "a", "hypothesis": "b", "label": "not_entailment"}, ("a", "b"), 1),
    "axb": ({"sentence1": "a", "sentence2": "b", "label": "entailment", "logic": "x"}, ("a", "b"), 0),
    "axg": ({"premise": "a", "hypothesis": "b", "label": "entailment"}, ("a", "b"), 0),
    "wic": ({"word": "place", "sentence1": "Any place.", "sentence2": "He placed it.", "label": False},
            ("place: Any place.", "He placed it."), 0),
    "wsc": (WSC, ("Mark told Pete lies, which Pete had in his book . * He * was cross.", "Mark"), 1),
}  # fmt: skip


@pytest.mark.parametrize("task", ROWS)
def test_pairs_with_a_class(tmp_path: Path, task: str) -> None:
    row, texts, label = ROWS[task]
    lines = [row, {**row, "label": "maybe"}, {name: value for name, value in row.items() if name != "label"},
             {"label": row["label"]}]  # fmt: skip
    reader = reader_of("superglue", task=task)
    items = items_of(reader, written(tmp_path, "".join(f"{json.dumps(line)}\n" for line in lines)))
    assert items[0] == LabeledText(texts, label, None, 0)
    assert reasons(items) == {"bad_label": 1, "no_label": 1, "fields": 1}
    assert reader.facts.head == "classification"


@pytest.mark.parametrize("task", ROWS)
def test_classes_may_be_numbers(tmp_path: Path, task: str) -> None:
    """As exports of Hugging Face have them, -1 in test sets."""
    row, texts, label = ROWS[task]
    lines = [{**row, "label": label}, {**row, "label": -1}, {**row, "label": 7}]
    items = items_of(
        reader_of("superglue", task=task), written(tmp_path, "".join(f"{json.dumps(line)}\n" for line in lines))
    )
    assert items == [LabeledText(texts, label, None, 0), Rejected("no_label", 1), Rejected("bad_label", 2)]
    assert "the column label holds '7', the classes are" in items[2].detail


def test_a_cause_or_an_effect(tmp_path: Path) -> None:
    row = {
        "premise": "It rained.",
        "choice1": "Clouds came.",
        "choice2": "It was dry.",
        "question": "cause",
        "label": 0,
    }
    lines = [row, {**row, "question": "effect", "label": 1}, {**row, "question": "why"}, {**row, "label": 2}]
    items = items_of(
        reader_of("superglue", task="copa"), written(tmp_path, "".join(f"{json.dumps(line)}\n" for line in lines))
    )
    choices = ("Clouds came.", "It was dry.")
    assert items[:2] == [
        Choices("It rained. What was the cause of this?", choices, 0, 0),
        Choices("It rained. What happened as a result?", choices, 1, 1),
    ]
    assert reasons(items) == {"fields": 1, "bad_label": 1}


def test_answers_share_the_number_of_their_question(tmp_path: Path) -> None:
    def question(text: str, *answers: Any) -> Any:
        return {"question": text, "answers": [{"text": answer, "label": label} for answer, label in answers]}

    first = {
        "text": "A passage.",
        "questions": [question("Who?", ("Ada", 1), ("Bob", 0)), question("Why?", ("So.", 1))],
    }
    second = {"text": "Other.", "questions": [question("How?", ("Well.", 3), ("", 1))]}
    text = "".join(f"{json.dumps({'passage': passage})}\n" for passage in (first, second))
    items = items_of(reader_of("superglue", task="multirc"), written(tmp_path, text))
    assert items[:3] == [
        LabeledText(("A passage.", "Who? Ada"), 1, None, 0, "passage 0"),
        LabeledText(("A passage.", "Who? Bob"), 0, None, 0, "passage 0"),
        LabeledText(("A passage.", "Why? So."), 1, None, 1, "passage 0"),
    ]
    assert reasons(items) == {"bad_label": 1, "empty_text": 1}
    assert [item.index for item in items[3:]] == [2, 2]


def test_the_two_rows_of_a_pair_share_its_number(tmp_path: Path) -> None:
    """By their `pair_id`; files without one have them one after the other."""
    lines = [{"premise": text, "hypothesis": "b", "label": "entailment"} for text in "abcd"]
    named = [{**line, "pair_id": pair} for line, pair in zip(lines, (7, 5, 7, 5), strict=True)]
    for rows, places in ((lines, [0, 0, 1, 1]), (named, [7, 5, 7, 5])):
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        assert [item.index for item in items_of(reader_of("superglue", task="axg"), written(tmp_path, text))] == places


def test_a_query_is_answered_by_places_of_the_passage(tmp_path: Path) -> None:
    def query(text: str | None, *answers: tuple[int, str]) -> Any:
        return {"query": text, "idx": {}, "answers": [{"start": at, "end": 0, "text": name} for at, name in answers]}

    passage = {"text": "Ada met Bob.\n@highlight\nAda wrote.", "entities": [{"start": 0, "end": 2}]}
    queries = [query("@placeholder wrote.", (0, "Ada"), (24, "Ada")), query("@placeholder came.", (1, "Bob")),
               query("@placeholder left."), query(None, (0, "Ada"))]  # fmt: skip
    reader = reader_of("superglue", task="record")
    items = items_of(reader, written(tmp_path, f"{json.dumps({'passage': passage, 'qas': queries})}\n"))
    assert items[0] == Question("@placeholder wrote.", passage["text"], ((0, "Ada"), (24, "Ada")), "0", 0, "passage 0")
    assert reasons(items) == {"answer_not_found": 1, "no_answer": 1, "fields": 1}
    assert (reader.facts.head, reader.facts.metrics) == ("span", ("f1", "exact_match"))


def test_a_file_of_another_task(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="columns question, passage, got premise without question, passage"):
        reader_of("superglue", task="boolq").open(written(tmp_path, '{"premise": "a"}\n'))


@pytest.mark.parametrize(
    ("index", "text", "fits"), [(10, "He", True), (10, "he", True), (3, "He", False), (99, "He", False)]
)
def test_the_pronoun_stands_at_its_index(tmp_path: Path, index: int, text: str, fits: bool) -> None:
    target = {"span1_text": "Mark", "span1_index": 0, "span2_text": text, "span2_index": index}
    sentence = "Mark told Pete lies, which Pete had in his book. (He was cross.)"
    row = {"text": sentence, "target": target, "label": True}
    items = items_of(reader_of("superglue", task="wsc"), written(tmp_path, json.dumps(row) + "\n"))
    assert [isinstance(item, LabeledText) for item in items] == [fits]


def test_rows_without_labels_have_the_ids_of_their_file(tmp_path: Path) -> None:
    """Those of a test file, with an index of their own; a label that stands there is not read."""
    row = {"question": "is it", "passage": "It is."}
    path = written(
        tmp_path, "".join(f"{json.dumps(one)}\n" for one in ({**row, "idx": 7}, {**row, "idx": 9, "label": 5}, {}))
    )
    rows = reader_of("superglue", task="boolq").read_unlabeled(path)
    assert rows is not None
    assert [(getattr(item, "texts", ()), item.index, key) for item, key in rows] == [
        (("is it", "It is."), 0, 7), (("is it", "It is."), 1, 9), ((), 2, None),
    ]  # fmt: skip
