"""How many labels a pretrained body is worth, by hand and by numpy."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from clozeline.extensions.studies.label_curves import find_rows_worth, label_lines


def point(begin, rows, *scores):
    runs = [
        SimpleNamespace(
            metrics={"accuracy": score}, scores={"baselines": {"words": {"accuracy": 0.55}}}
        )
        for score in scores
    ]
    return {("labels", begin, rows): runs}


def test_rows_worth_a_score_by_hand():
    curve = [(10, 0.5), (100, 0.6), (1000, 0.6), (10_000, 0.8)]

    assert find_rows_worth(0.4, curve) == pytest.approx(10)
    assert find_rows_worth(0.55, curve) == pytest.approx(math.sqrt(1000))
    assert find_rows_worth(0.6, curve) == pytest.approx(100)
    assert find_rows_worth(0.81, curve) is None


@pytest.mark.parametrize("score", np.linspace(0.51, 0.89, 20))
def test_rows_worth_a_score_are_those_of_interpolation(score):
    rows = np.array([10, 70, 300, 4000])
    scores = np.array([0.5, 0.62, 0.7, 0.9])

    expected = np.exp(np.interp(score, scores, np.log(rows)))

    assert find_rows_worth(score, list(zip(rows, scores, strict=True))) == pytest.approx(expected)


def test_a_body_that_is_worth_ten_times_its_labels():
    few = point("all", 10, 0.6, 0.6) | point("random", 10, 0.5, 0.5)
    points = few | point("all", 100, 0.9, 0.9) | point("random", 100, 0.6, 0.6)
    _, ten, hundred = label_lines(points)

    assert ten.split()[-4:] == ["100", "10.0", "±", "0.0"]
    assert hundred.split()[-4:] == [">", "100", ">", "1.0"]
    assert list(label_lines(few)) == []
