"""F1 over answers against scikit-learn, means of correlations against numpy, parity and exact match against loops."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score

from clozeline.tools.runs.evaluation.group_scores import parity_scores, question_scores


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
