"""Baselines of rows and choices: the most frequent answer, and words that decide."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.runs.evaluation.task_run import set_rows
from clozeline.train.answers._answer import TaskAnswer
from clozeline.train.answers._bag_of_words import fit_predict
from clozeline.train.answers.classification import Classification
from clozeline.train.answers.multiple_choice import MultipleChoice
from clozeline.train.answers.regression import Regression
from tests.pipeline.task_files import make_choice_sets, make_sets, sentences

ONE = TaskFacts(name="toy", head="classification", labels=("0", "1"), metrics=("accuracy",))
SEVERAL = TaskFacts(name="t", head="classification", labels=("a", "b", "c"), metrics=(), multi_label=True)
NUMBER = TaskFacts(name="toy", head="regression", metrics=("pearson",))


def opened(folder: Path) -> Any:
    return SimpleNamespace(tokenizer=load_tokenizer(folder / "out" / "tokenizer" / "tokenizer"))


def test_texts_and_answers_are_those_of_the_file(tmp_path: Path) -> None:
    rows = set_rows(open_shards(make_sets(tmp_path) / "dev"))
    gold = Classification(ONE).gold(opened(tmp_path), rows)
    expected = [(text.replace(" .", "."), str(label)) for text, label in sentences(81)[60:]]  # BERT's decoder joins it
    assert sorted((entry["texts"][0], entry["gold"]) for entry in gold.values()) == sorted(expected)


@pytest.mark.parametrize(
    ("answer", "name", "dtype", "values", "expected"),
    [
        (Classification(ONE), "label", np.uint16, [[1], [0], [1], [1]], 1),
        (Classification(ONE), "label", np.uint16, [[1], [0], [1], [0]], 0),
        (Regression(NUMBER), "target", np.float32, [[1.0], [4.0]], 2.5),
        (Classification(SEVERAL), "labels", np.uint8, [[1, 1, 0], [0, 1, 0], [0, 1, 0]], [0, 1, 0]),
    ],
    ids=["most", "tie", "mean", "several"],
)
def test_the_most_frequent_class_and_the_mean(
    tmp_path: Path, answer: TaskAnswer, name: str, dtype: Any, values: list[list[float]], expected: Any
) -> None:
    make_sets(tmp_path)
    columns = {"input_ids": Ragged.from_lists([[2, 5, 3]] * len(values), np.uint16),
               name: Ragged.from_lists(values, dtype)}  # fmt: skip
    rows = Rows({}, columns)
    found = answer.baselines(opened(tmp_path), rows, rows)["majority"]  # type: ignore[attr-defined]
    assert found.tolist() == [expected] * len(values)


def test_words_decide_where_they_do() -> None:
    train = [(f"a {'good' if number % 2 else 'bad'} film {number}",) for number in range(40)]
    assert fit_predict(train, np.arange(40) % 2, [("good plot",), ("bad plot",)]).tolist() == [1, 0]
    assert fit_predict([("x",), ("y",)], np.array([1, 1]), [("x",)]).tolist() == [1], "of one class alone"


def test_several_classes_have_a_linear_model_each() -> None:
    train = [(f"{'x' if number % 2 else 'y'} {'z' if number % 3 else 'w'}",) for number in range(60)]
    answers = np.array([[number % 2, int(number % 3 > 0), 0] for number in range(60)])
    assert fit_predict(train, answers, [("x w",), ("y z",)]).tolist() == [[1, 0, 0], [0, 1, 0]]


def test_a_wrong_word_is_never_taken(tmp_path: Path) -> None:
    """`good` is right wherever it is, at any number, among two choices and among three."""
    make_choice_sets(tmp_path)
    task = opened(tmp_path)
    tokenizer = task.tokenizer
    a, film, good, bad, plot = (int(one.ids[0]) for one in tokenizer.encode(["a", "film", "good", "bad", "plot"]))
    cls, sep, facts = 2, 3, TaskFacts(name="t", head="multiple_choice", metrics=("accuracy",), texts=2)

    def rows(given: list[list[int]]) -> Rows:
        parts = [[[cls, a, film, sep, choice, sep] for choice in choices] for choices in given]
        lists = {
            "input_ids": Ragged.from_lists([[token for part in one for token in part] for one in parts], np.uint16),
            "choice_starts": Ragged.from_lists([[6 * place for place in range(len(one))] for one in parts], np.uint32),
            "choice": Ragged.from_lists([[one.index(good)] for one in given], np.uint16),
        }
        return Rows({}, lists)

    train = rows([[good, bad], [bad, good], [plot, bad, good], [plot, good, bad]] * 5)
    found = MultipleChoice(facts).baselines(task, train, rows([[bad, plot, good], [good, bad]]))
    assert found["words"].tolist() == [2, 0]
    assert found["majority"].tolist() == [1, 1]
