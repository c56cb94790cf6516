"""Answers of questions keep their places where the stored form of a context is shorter."""

import json
from types import SimpleNamespace

import pytest

from clozeline.configuration.config import validate
from clozeline.extensions.tasks.sets.config import TasksConfig
from clozeline.extensions.tasks.unlabeled_rows import task_reader
from clozeline.pipeline.ingest.formats.limits import InputLimits
from tests.extensions.tasks.readers.reading import items_of, reasons, written

CONTEXT = "\ufeffThe cafe\u0301\r\nof Rene\u0301\x00 opens."


def questions(*answers):
    entries = [
        {
            "id": str(number),
            "question": "Who\u00ad?",
            "answers": [{"text": text, "answer_start": CONTEXT.index(text)}],
        }
        for number, text in enumerate(answers)
    ]

    return json.dumps(
        {
            "data": [
                {
                    "title": "a",
                    "paragraphs": [{"context": CONTEXT, "qas": entries}],
                }
            ]
        }
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_answers_are_found_in_the_stored_form(tmp_path, encoding):
    """Right by hand: an answer after each change, and one that ends between a letter and its
    accent."""
    path = written(
        tmp_path,
        questions("cafe\u0301", "Rene\u0301\x00", "opens", "Rene").encode(encoding),
        "a.json",
    )

    config = validate(TasksConfig, {"reader": {"name": "squad"}}, "test")
    items = items_of(config.build_reader(InputLimits()), path)

    assert reasons(items) == {"answer_not_found": 1}
    assert {item.context for item in items[:3]} == {"The caf\u00e9\nof Ren\u00e9 opens."}
    assert [item.answers for item in items[:3]] == [
        ((4, "caf\u00e9"),),
        ((12, "Ren\u00e9"),),
        ((17, "opens"),),
    ]
    assert items[0].question == "Who?"


def test_a_key_leaves_texts_as_they_are_and_predictions_follow_it(tmp_path):
    path = written(tmp_path, questions("Rene"), "a.json")
    config = validate(TasksConfig, {"reader": {"name": "squad"}, "normalize": "none"}, "test")
    (item,) = items_of(config.build_reader(InputLimits()), path)

    assert (item.context, item.question) == (CONTEXT, "Who\u00ad?")

    manifest = SimpleNamespace(config={"reader": {"name": "squad"}, "normalize": "none"})
    assert task_reader(manifest).form == "none"
    assert task_reader(SimpleNamespace(config={"reader": {"name": "squad"}})).form == "prose"
