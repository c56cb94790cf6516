from __future__ import annotations

from pathlib import Path

import numpy as np

from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.runs.evaluation.baselines import baseline_predictions, texts_of
from clozeline.tools.runs.evaluation.predictions import answers_of, set_rows
from tests.pipeline.task_files import make_sets, sentences

ONE = TaskFacts(name="toy", head="classification", labels=("0", "1"), metrics=("accuracy",))
NUMBER = TaskFacts(name="toy", head="regression", metrics=("pearson",), texts=2)


def test_texts_are_those_of_the_file(tmp_path: Path) -> None:
    sets = make_sets(tmp_path)
    rows = set_rows(open_shards(sets / "dev"))
    found = texts_of(rows, load_tokenizer(tmp_path / "out" / "tokenizer" / "tokenizer"))
    answers = answers_of(rows, ONE).tolist()
    expected = [(text.replace(" .", "."), label) for text, label in sentences(81)[60:]]  # as BERT's decoder writes it
    assert sorted(zip((text for (text,) in found), answers, strict=True)) == sorted(expected)


def test_the_most_frequent_class_and_the_mean() -> None:
    train = [("x",)] * 5
    assert baseline_predictions(ONE, (train, np.array([1, 0, 1, 1, 0])), [("y",)] * 2)["majority"].tolist() == [1, 1]
    assert baseline_predictions(ONE, (train[:4], np.array([1, 0, 1, 0])), [("y",)])["majority"].tolist() == [0]
    pairs = [("x", "y")] * 2
    assert baseline_predictions(NUMBER, (pairs, np.array([1.0, 4.0])), pairs)["majority"].tolist() == [2.5, 2.5]


def test_words_decide_where_they_do() -> None:
    train = [(f"a {'good' if number % 2 else 'bad'} film {number}",) for number in range(40)]
    answers = np.arange(40) % 2
    found = baseline_predictions(ONE, (train, answers), [("good plot",), ("bad plot",)])
    assert found["words"].tolist() == [1, 0]


def test_one_class_alone() -> None:
    found = baseline_predictions(ONE, ([("x",), ("y",)], np.array([1, 1])), [("x",)])
    assert {name: values.tolist() for name, values in found.items()} == {"majority": [1], "words": [1]}


def test_several_classes_have_a_linear_model_each() -> None:
    """A class of most rows is everywhere, and words decide the others."""
    facts = TaskFacts(name="t", head="classification", labels=("a", "b", "c"), metrics=(), multi_label=True)
    train = [(f"{'x' if number % 2 else 'y'} {'z' if number % 3 else 'w'}",) for number in range(60)]
    answers = np.array([[number % 2, int(number % 3 > 0), 0] for number in range(60)])
    found = baseline_predictions(facts, (train, answers), [("x w",), ("y z",)])
    assert found["majority"].tolist() == [[0, 1, 0], [0, 1, 0]]
    assert found["words"].tolist() == [[1, 0, 0], [0, 1, 0]]
