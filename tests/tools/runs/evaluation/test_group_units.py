"""F1 over answers against scikit-learn, means of correlations against numpy, parity and exact match against loops."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score

from clozeline.tools.runs.evaluation.group_units import parity_units, question_units, subset_units
from clozeline.tools.runs.evaluation.unit_sums import value_of


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


def test_parity_of_pairs_in_any_order() -> None:
    """A row without its fellow counts for accuracy alone."""
    draws = np.random.default_rng(4)
    pairs = draws.permutation(np.repeat(np.arange(31), 2))[:-1]
    answers, predicted = draws.integers(0, 2, (2, len(pairs)))
    units = parity_units(answers, predicted, pairs[:, None].astype(np.uint8))
    found = {name: value_of(name, np.sum(numbers, axis=0)) for name, numbers in units.items()}
    both = [predicted[pairs == pair].tolist() for pair in range(31) if sum(pairs == pair) == 2]
    assert found["gender_parity"] == sum(one == other for one, other in both) / len(both)
    assert len(both) == 30
    assert found["accuracy"] == pytest.approx((answers == predicted).mean())


def test_means_of_the_correlations_of_subsets() -> None:
    """Spearman's is Pearson's of ranks; a constant subset has 0, and counts."""
    draws = np.random.default_rng(5)
    subsets = draws.integers(0, 3, 60)
    answers = draws.integers(0, 6, 60).astype(float) + 10 * subsets
    predicted = answers - 10 * subsets + draws.normal(size=60)
    predicted[subsets == 1] = 2.0
    units = subset_units(answers, predicted, subsets[:, None].astype(np.uint8))
    found = {name: value_of(name, np.sum(numbers, axis=0)) for name, numbers in units.items()}
    sides = [(answers[subsets == one], predicted[subsets == one]) for one in (0, 2)]
    assert found["mean_pearson"] == pytest.approx(sum(np.corrcoef(*side)[0, 1] for side in sides) / 3)
    ranks = [tuple(_ranks(values) for values in side) for side in sides]
    assert found["mean_spearman"] == pytest.approx(sum(np.corrcoef(*side)[0, 1] for side in ranks) / 3)


def _ranks(values: np.ndarray) -> list[float]:
    """Ranks, of equal values their mean."""
    return [float(np.sum(values < one) + np.sum(values <= one) + 1) / 2 for one in values]
