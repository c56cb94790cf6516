"""Files of predictions in official layouts, in parts that survive a kill, and test files without answers."""

import json

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Rejected, TaskFacts
from clozeline.tools.runs.inference.prediction_files import PredictionParts, write_output
from clozeline.train.answers.regression import Regression
from clozeline.train.answers.span import Span
from tests.pipeline.tasks.readers.reading import reader_of, written


def test_questions_that_may_have_no_answer_have_a_probability_of_it(tmp_path):
    answer = Span(TaskFacts(name="v2", head="span", metrics=("f1",), unanswerable=True))
    records = [{"row": 0, "id": "a", "answer": "Ada", "na_prob": 0.25}, {"row": 1, "id": "b", "rejected": "no_tokens"}]
    write_output(tmp_path / "answers.json", "squad", records, answer)
    assert json.loads((tmp_path / "answers.json").read_text()) == {"a": "Ada", "b": ""}
    assert json.loads((tmp_path / "answers.na_prob.json").read_text()) == {"a": 0.25, "b": 1.0}


def test_a_submission_of_numbers_and_one_that_lacks_a_row(tmp_path):
    answer = Regression(TaskFacts(name="stsb", head="regression", metrics=("pearson",), texts=2))
    write_output(tmp_path / "STS-B.tsv", "glue", [{"row": 0, "score": 3.14159}], answer)
    assert (tmp_path / "STS-B.tsv").read_text() == "index\tprediction\n0\t3.142\n"
    with pytest.raises(ConfigurationError, match=r"row 1 has no prediction .empty_text."):
        write_output(tmp_path / "other.tsv", "glue", [{"row": 1, "rejected": "empty_text"}], answer)
    assert not (tmp_path / "other.tsv").exists()


def test_parts_belong_to_one_prediction(tmp_path):
    parts = PredictionParts(tmp_path / "p.jsonl", {"input": "x"})
    parts.write(0, [{"row": 0}])
    again = PredictionParts(tmp_path / "p.jsonl", {"input": "x"})
    assert (again.has(0), again.has(1)) == (True, False)
    assert list(again.records(1)) == [{"row": 0}]
    with pytest.raises(ConfigurationError, match=r"p\.jsonl\.parts: holds parts of another prediction .input differ"):
        PredictionParts(tmp_path / "p.jsonl", {"input": "y"})
    again.remove()
    assert not again.folder.exists()


def test_answers_of_a_passage_share_a_line(tmp_path):
    asked = [{"question": f"Who {number}?", "idx": 10 + number, "answers": [{"text": "Ada", "idx": 20 + 2 * number},
                                                                           {"text": "Bob", "idx": 21 + 2 * number}]}
             for number in range(2)]  # fmt: skip
    lines = [{"idx": number, "passage": {"text": "Ada met.", "questions": asked}} for number in (3, 4)]
    reader = reader_of("superglue", task="multirc")
    rows = reader.read_unlabeled(written(tmp_path, "".join(f"{json.dumps(line)}\n" for line in lines)))
    assert rows is not None
    items = list(rows)
    assert [item.index for item, _ in items] == list(range(8))
    assert [key for _, key in items] == [[passage, 10 + at // 2, 20 + at] for passage in (3, 4) for at in range(4)]


def test_queries_are_answered_by_texts(tmp_path):
    row = {"idx": 1, "passage": {"text": "Ada met Bob.", "entities": []},
           "qas": [{"query": "@placeholder won", "idx": 5}, {"query": "@placeholder lost", "idx": 6}]}  # fmt: skip
    reader = reader_of("superglue", task="record")
    rows = reader.read_unlabeled(written(tmp_path, f"{json.dumps(row)}\n{{}}\n"))
    assert rows is not None
    (first, key), (second, _), (rejected, _) = rows
    assert (first.index, key, second.index) == (0, 5, 1)
    assert rejected == Rejected("fields", 2)
