import pytest

from clozeline.extensions.tasks.readers import Choices, LabeledText, Question, Rejected
from tests.extensions.tasks.readers.reading import json_lines, read, reader_of, written

LAYOUT = {"task": "boolq"}
"""Options that the contract of readers needs."""

WSC = {
    "text": "Mark told Pete lies, which Pete had in his book . He was cross.",
    "label": True,
    "target": {"span1_text": "Mark", "span1_index": 0, "span2_text": "He", "span2_index": 11},
}
ROWS = {
    "boolq": ({"question": "is it", "passage": "It is.", "label": True}, ("is it", "It is."), 1),
    "cb": ({"premise": "a", "hypothesis": "b", "label": "neutral"}, ("a", "b"), 2),
    "rte": ({"premise": "a", "hypothesis": "b", "label": "not_entailment"}, ("a", "b"), 1),
    "axb": (
        {"sentence1": "a", "sentence2": "b", "label": "entailment", "logic": "x"},
        ("a", "b"),
        0,
    ),
    "axg": ({"premise": "a", "hypothesis": "b", "label": "entailment"}, ("a", "b"), 0),
    "wic": (
        {"word": "place", "sentence1": "Any place.", "sentence2": "He placed it.", "label": False},
        ("place: Any place.", "He placed it."),
        0,
    ),
    "wsc": (
        WSC,
        ("Mark told Pete lies, which Pete had in his book . * He * was cross.", "Mark"),
        1,
    ),
}


@pytest.mark.parametrize("task", ROWS)
def test_pairs_with_a_class(tmp_path, task):
    """By its name, or by its number, as exports of Hugging Face have it, -1 in test sets."""
    row, texts, label = ROWS[task]
    unlabeled = {name: value for name, value in row.items() if name != "label"}
    rows = [
        row,
        {**row, "label": label},
        {**row, "label": "maybe"},
        {**row, "label": 7},
        unlabeled,
        {**row, "label": -1},
        {"label": row["label"]},
    ]

    items = read(tmp_path, json_lines(*rows), "superglue", task=task)

    assert items[0] == LabeledText(texts, label, None, 0)
    assert (items[1].texts, items[1].label) == (texts, label)
    assert [item.reason for item in items[2:]] == [
        "bad_label",
        "bad_label",
        "no_label",
        "no_label",
        "fields",
    ]


def test_a_cause_or_an_effect(tmp_path):
    row = {
        "premise": "It rained.",
        "choice1": "Clouds came.",
        "choice2": "It was dry.",
        "question": "cause",
        "label": 0,
    }

    rows = [
        row,
        {**row, "question": "effect", "label": 1},
        {**row, "question": "why"},
        {**row, "label": 2},
    ]

    choices = ("Clouds came.", "It was dry.")

    assert read(tmp_path, json_lines(*rows), "superglue", task="copa") == [
        Choices("It rained. What was the cause of this?", choices, 0, 0),
        Choices("It rained. What happened as a result?", choices, 1, 1),
        Rejected("fields", 2),
        Rejected("bad_label", 3),
    ]


def test_answers_share_the_number_of_their_question(tmp_path):
    def question(text, *answers):
        return {
            "question": text,
            "answers": [{"text": answer, "label": label} for answer, label in answers],
        }

    first = {
        "text": "A passage.",
        "questions": [question("Who?", ("Ada", 1), ("Bob", 0)), question("Why?", ("So.", 1))],
    }
    second = {"text": "Other.", "questions": [question("How?", ("Well.", 3), ("", 1))]}

    assert read(
        tmp_path, json_lines({"passage": first}, {"passage": second}), "superglue", task="multirc"
    ) == [
        LabeledText(("A passage.", "Who? Ada"), 1, None, 0, "passage 0"),
        LabeledText(("A passage.", "Who? Bob"), 0, None, 0, "passage 0"),
        LabeledText(("A passage.", "Why? So."), 1, None, 1, "passage 0"),
        Rejected("bad_label", 2),
        Rejected("empty_text", 2),
    ]


def test_a_query_is_answered_by_positions_in_the_passage(tmp_path):
    def query(text, *answers):
        return {
            "query": text,
            "idx": {},
            "answers": [{"start": at, "end": 0, "text": name} for at, name in answers],
        }

    passage = {"text": "Ada met Bob.\n@highlight\nAda wrote.", "entities": [{"start": 0, "end": 2}]}
    queries = [
        query("@placeholder wrote.", (0, "Ada"), (24, "Ada")),
        query("@placeholder came.", (1, "Bob")),
        query("@placeholder left."),
        query(None, (0, "Ada")),
    ]

    item, *others = read(
        tmp_path, json_lines({"passage": passage, "qas": queries}), "superglue", task="record"
    )

    assert item == Question(
        "@placeholder wrote.", passage["text"], ((0, "Ada"), (24, "Ada")), "0", 0, "passage 0"
    )
    assert [other.reason for other in others] == ["answer_not_found", "no_answer", "fields"]


def test_rows_without_labels_have_the_ids_of_their_file(tmp_path):
    """Those of a test file, with an index of their own; a label that stands there is not read."""
    row = {"question": "is it", "passage": "It is."}
    path = written(tmp_path, json_lines({**row, "idx": 7}, {**row, "idx": 9, "label": 5}, {}))
    rows = reader_of("superglue", task="boolq").read_unlabeled(path)

    assert [(getattr(item, "texts", ()), item.index, key) for item, key in rows] == [
        (("is it", "It is."), 0, 7),
        (("is it", "It is."), 1, 9),
        ((), 2, None),
    ]


@pytest.mark.parametrize(
    ("index", "text", "fits"),
    [(10, "He", True), (10, "he", True), (3, "He", False), (99, "He", False)],
)
def test_the_pronoun_stands_at_its_index(tmp_path, index, text, fits):
    target = {"span1_text": "Mark", "span1_index": 0, "span2_text": text, "span2_index": index}
    sentence = "Mark told Pete lies, which Pete had in his book. (He was cross.)"
    row = {"text": sentence, "target": target, "label": True}
    (item,) = read(tmp_path, json_lines(row), "superglue", task="wsc")
    assert isinstance(item, LabeledText) is fits


def test_the_two_rows_of_a_pair_share_its_number(tmp_path):
    """By their `pair_id`; files without one have them one after the other."""
    rows = [{"premise": text, "hypothesis": "b", "label": "entailment"} for text in "abcd"]
    named = [{**row, "pair_id": pair} for row, pair in zip(rows, (7, 5, 7, 5), strict=True)]
    for some, indices in ((rows, [0, 0, 1, 1]), (named, [7, 5, 7, 5])):
        assert [
            item.index for item in read(tmp_path, json_lines(*some), "superglue", task="axg")
        ] == indices
