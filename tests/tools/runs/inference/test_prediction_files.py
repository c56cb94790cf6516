"""Files of predictions: official layouts, and parts that survive a kill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.tools.runs.inference.prediction_files import PredictionParts, write_output
from clozeline.train.answers.regression import Regression
from clozeline.train.answers.span import Span


def test_questions_that_may_have_no_answer_have_a_probability_of_it(tmp_path: Path) -> None:
    answer = Span(TaskFacts(name="v2", head="span", metrics=("f1",), unanswerable=True))
    records = [{"row": 0, "id": "a", "answer": "Ada", "na_prob": 0.25}, {"row": 1, "id": "b", "rejected": "no_tokens"}]
    write_output(tmp_path / "answers.json", "squad", records, answer)
    assert json.loads((tmp_path / "answers.json").read_text()) == {"a": "Ada", "b": ""}
    assert json.loads((tmp_path / "answers.na_prob.json").read_text()) == {"a": 0.25, "b": 1.0}


def test_a_submission_of_numbers_and_one_that_lacks_a_row(tmp_path: Path) -> None:
    answer = Regression(TaskFacts(name="stsb", head="regression", metrics=("pearson",), texts=2))
    write_output(tmp_path / "STS-B.tsv", "glue", [{"row": 0, "score": 3.14159}], answer)
    assert (tmp_path / "STS-B.tsv").read_text() == "index\tprediction\n0\t3.142\n"
    with pytest.raises(ConfigurationError, match=r"row 1 has no prediction .empty_text."):
        write_output(tmp_path / "other.tsv", "glue", [{"row": 1, "rejected": "empty_text"}], answer)
    assert not (tmp_path / "other.tsv").exists()


def test_parts_belong_to_one_prediction(tmp_path: Path) -> None:
    parts = PredictionParts(tmp_path / "p.jsonl", {"input": "x"})
    parts.write(0, [{"row": 0}])
    again = PredictionParts(tmp_path / "p.jsonl", {"input": "x"})
    assert (again.has(0), again.has(1)) == (True, False)
    assert list(again.records(1)) == [{"row": 0}]
    with pytest.raises(ConfigurationError, match=r"p\.jsonl\.parts: holds parts of another prediction .input differ"):
        PredictionParts(tmp_path / "p.jsonl", {"input": "y"})
    again.remove()
    assert not again.folder.exists()
