"""Metrics against their formulas in plain Python and scikit-learn, and where they are not defined."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tasks.readers.glue import GLUE_TASKS
from clozeline.train.answers._metrics import METRICS, degenerate, parity_scores, question_scores, score

PAIRS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=30)
NUMBERS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=20)
CLASSES = TaskFacts(name="toy", head="classification", labels=("0", "1"), positive=1,
                    metrics=("accuracy", "f1", "matthews_correlation"))  # fmt: skip
SCORES = TaskFacts(name="toy", head="regression", metrics=("pearson", "spearman"), high=6.0)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    answers, predicted = zip(*pairs, strict=True)
    return np.array(answers), np.array(predicted)


@given(PAIRS)
def test_metrics_of_classes(pairs: list[tuple[int, int]]) -> None:
    tp, tn, fp, fn = (pairs.count(pair) for pair in ((1, 1), (0, 0), (0, 1), (1, 0)))
    root = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    found = score(CLASSES, *columns(pairs))
    assert found["accuracy"] == pytest.approx((tp + tn) / len(pairs))
    assert found["f1"] == pytest.approx(2 * tp / (2 * tp + fp + fn) if tp else 0.0)
    assert found["matthews_correlation"] == pytest.approx((tp * tn - fp * fn) / root if root else 0.0)


def correlation(left: list[float], right: list[float]) -> float:
    means = sum(left) / len(left), sum(right) / len(right)
    pairs = [(a - means[0], b - means[1]) for a, b in zip(left, right, strict=True)]
    return sum(a * b for a, b in pairs) / math.sqrt(sum(a * a for a, _ in pairs) * sum(b * b for _, b in pairs))


def ranks(values: list[float]) -> list[float]:
    """Average ranks of equal values."""
    return [sum(other < one for other in values) + (values.count(one) + 1) / 2 for one in values]


@given(NUMBERS)
def test_correlations(pairs: list[tuple[int, int]]) -> None:
    answers, predicted = columns(pairs)
    found = score(SCORES, answers.astype(float), predicted.astype(float))
    if len(set(answers)) == 1 or len(set(predicted)) == 1:
        assert found == {"pearson": 0.0, "spearman": 0.0}
        assert degenerate(answers, predicted)
        return
    left, right = answers.tolist(), predicted.tolist()
    assert found["pearson"] == pytest.approx(correlation(left, right), abs=1e-9)
    assert found["spearman"] == pytest.approx(correlation(ranks(left), ranks(right)), abs=1e-9)


def test_every_metric_of_a_task_is_here() -> None:
    named = {metric for task in GLUE_TASKS.values() for metric in task.metrics}
    assert named | {"macro_f1", "micro_f1", "subset_accuracy"} == set(METRICS)  # of SuperGLUE's CB and of own files
    unknown = TaskFacts(name="toy", head="regression", metrics=("bleu",))
    with pytest.raises(ConfigurationError, match="no metric 'bleu'; known: accuracy"):
        score(unknown, np.zeros(2), np.zeros(2))


def test_macro_f1_is_the_mean_over_classes() -> None:
    """Of three classes, one is never there and never predicted: its F1 is 0."""
    facts = TaskFacts(name="toy", head="classification", labels=("a", "b", "c"), metrics=("macro_f1",))
    found = score(facts, np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]))
    assert found["macro_f1"] == pytest.approx((2 / 3 + 4 / 5 + 0) / 3)


def test_metrics_of_several_classes_per_row() -> None:
    """Against counts by hand: micro over all cells, macro over classes, and rows that are right in every class."""
    metrics = ("micro_f1", "macro_f1", "subset_accuracy")
    facts = TaskFacts(name="t", head="classification", labels=("a", "b", "c"), metrics=metrics, multi_label=True)
    generator = np.random.Generator(np.random.PCG64(3))
    answers, predicted = generator.integers(0, 2, (2, 30, 3))
    both = [sum(map(min, *sides)) for sides in zip(answers.T.tolist(), predicted.T.tolist(), strict=True)]
    sums = [int(answers[:, index].sum() + predicted[:, index].sum()) for index in range(3)]
    right = sum(one == two for one, two in zip(answers.tolist(), predicted.tolist(), strict=True))
    assert score(facts, answers, predicted) == {
        "micro_f1": pytest.approx(2 * sum(both) / sum(sums)),
        "macro_f1": pytest.approx(sum(2 * one / two for one, two in zip(both, sums, strict=True)) / 3),
        "subset_accuracy": right / 30,
    }


def test_answers_of_random_questions() -> None:
    draws = np.random.default_rng(2)
    questions = draws.integers(0, 40, 150)
    answers = draws.integers(0, 2, 150)
    predicted = np.where(draws.random(150) < 0.85, answers, 1 - answers)
    keys = np.stack((questions % 7, questions), axis=1).astype(np.uint8)
    found = question_scores(answers, predicted, keys)
    assert found["f1"] == pytest.approx(f1_score(answers, predicted))
    asked = sorted(set(questions.tolist()))
    right = [all(answers[questions == one] == predicted[questions == one]) for one in asked]
    assert found["exact_match"] == pytest.approx(sum(right) / len(asked))
    assert 0.2 < found["exact_match"] < 0.8


def test_parity_of_pairs_in_any_order() -> None:
    """A row without its fellow counts for accuracy alone."""
    draws = np.random.default_rng(4)
    pairs = draws.permutation(np.repeat(np.arange(31), 2))[:-1]
    answers, predicted = draws.integers(0, 2, (2, len(pairs)))
    found = parity_scores(answers, predicted, pairs[:, None].astype(np.uint8))
    both = [predicted[pairs == pair].tolist() for pair in range(31) if sum(pairs == pair) == 2]
    assert found["gender_parity"] == sum(one == other for one, other in both) / len(both)
    assert len(both) == 30
    assert found["accuracy"] == pytest.approx((answers == predicted).mean())
