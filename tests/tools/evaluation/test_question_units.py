"""F1 over answers against scikit-learn, exact match over questions against a loop."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score

from tools.evaluation.question_units import question_units
from tools.evaluation.unit_sums import value_of


def test_answers_of_random_questions() -> None:
    draws = np.random.default_rng(2)
    questions = draws.integers(0, 40, 150)
    answers = draws.integers(0, 2, 150)
    predicted = np.where(draws.random(150) < 0.85, answers, 1 - answers)
    keys = np.stack((questions % 7, questions), axis=1).astype(np.uint8)
    units = question_units(answers, predicted, keys)
    found = {name: value_of(name, np.sum(numbers, axis=0)) for name, numbers in units.items()}
    assert found["f1"] == pytest.approx(f1_score(answers, predicted))
    asked = sorted(set(questions.tolist()))
    right = [all(answers[questions == one] == predicted[questions == one]) for one in asked]
    assert found["exact_match"] == pytest.approx(sum(right) / len(asked))
    assert 0.2 < found["exact_match"] < 0.8
