"""Files of predictions: what is written is read back, and what a file cannot hold is refused."""

import json

import pytest

from clozeline.extensions.tasks.heads.regression import RegressionTaskHead
from clozeline.extensions.tasks.heads.span import SpanTaskHead
from clozeline.extensions.tasks.heads.tagging import TaggingTaskHead
from clozeline.extensions.tasks.prediction_files import write_output
from clozeline.extensions.tasks.readers import TaskMetadata
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.tables import open_table
from tests.refusals import refused


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_a_table_of_predictions_holds_what_lines_of_json_hold(tmp_path, suffix):
    ids = ["007", 'a"b', "x,y", '"', " a", "\u2028", "a\rb", "line\nend", "a\tb"]
    ids = ids[: 6 if suffix == "tsv" else None]
    words = [["New York", 'a"b', "c,d"], [], ["\t", "\n"]]
    answer = TaggingTaskHead(TaskMetadata(name="ner", head="tagging", metrics=("accuracy",)))
    records = [
        {"row": row, "id": key, "words": each, "tags": ["O"]}
        for row, (key, each) in enumerate(zip(ids, 3 * words, strict=False))
    ]
    write_output(tmp_path / f"p.{suffix}", None, records, answer)
    read = [row for _, row in open_table(tmp_path / f"p.{suffix}", InputLimits()).rows()]

    for row, record in zip(read, records, strict=True):
        for name, value in record.items():
            is_text = suffix != "parquet" and not isinstance(value, str)
            assert (json.loads(row[name]) if is_text else row[name]) == value


@pytest.mark.parametrize("layout", [None, "glue"])
@pytest.mark.parametrize("end", "\t\n\r")
def test_an_id_that_a_file_of_tabs_cannot_hold_is_named(tmp_path, layout, end):
    answer = RegressionTaskHead(TaskMetadata(name="s", head="regression", metrics=("pearson",)))
    records = [{"row": 0, "id": f"a{end}b", "score": 1.0}]

    with refused(r"id: 'a\\.b' has a tab or a line end"):
        write_output(tmp_path / "p.tsv", layout, records, answer)
    assert not [*tmp_path.iterdir()]


def test_questions_that_may_have_no_answer_have_a_probability_of_it(tmp_path):
    answer = SpanTaskHead(TaskMetadata(name="v2", head="span", metrics=("f1",), unanswerable=True))
    records = [
        {"row": 0, "id": "a", "answer": "Ada", "na_prob": 0.25},
        {"row": 1, "id": "b", "rejected": "no_tokens"},
    ]
    write_output(tmp_path / "answers.json", "squad", records, answer)

    assert json.loads((tmp_path / "answers.json").read_text()) == {"a": "Ada", "b": ""}
    assert json.loads((tmp_path / "answers.na_prob.json").read_text()) == {"a": 0.25, "b": 1.0}


def test_a_submission_of_numbers_and_one_that_lacks_a_row(tmp_path):
    answer = RegressionTaskHead(
        TaskMetadata(name="stsb", head="regression", metrics=("pearson",), texts=2)
    )
    write_output(tmp_path / "STS-B.tsv", "glue", [{"row": 0, "score": 3.14159}], answer)

    assert (tmp_path / "STS-B.tsv").read_text() == "index\tprediction\n0\t3.142\n"

    with refused(r"row 1 has no prediction .empty_text."):
        write_output(tmp_path / "other.tsv", "glue", [{"row": 1, "rejected": "empty_text"}], answer)

    assert not (tmp_path / "other.tsv").exists()
