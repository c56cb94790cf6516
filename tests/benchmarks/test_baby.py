"""What `make baby` compares a body with: counts by hand, and pairs in which a tie is wrong."""

import math

import numpy as np
import pytest

pytest.importorskip("transformers")
from benchmarks.baby_scores import Counts, accuracies
from benchmarks.curve import draw_curves
from clozeline.extensions.evaluation.minimal_pairs import Pair


def test_kneser_ney_by_hand():
    """Bigrams `. a` twice, `a b` and `a c` once: D = 2 / (2 + 2).

    A, b, c each follow one word, and D is 0.5.
    """
    counts = Counts([[".", "a", "b"], [".", "a", "c"]], [2])
    one = (1 - 0.5) / 3 + 0.5 * 3 / 3 / 5  # of a, b or c, and of five words with the unknown one
    a_after_stop = (2 - 0.5) / 2 + 0.5 * 1 / 2 * one
    b_after_a = (1 - 0.5) / 2 + 0.5 * 2 / 2 * one
    assert counts.sum(["a", "b"], 2) == pytest.approx(math.log(a_after_stop * b_after_a))


def test_a_tie_is_wrong_and_paradigms_weigh_the_same():
    pairs = [Pair("good", "bad", paradigm, "p") for paradigm in ("x", "x", "x", "y")]
    found = accuracies(pairs, np.array([2, 1, 1, 1, 0, 1, 5, 4], float))

    assert found == {
        "mean": pytest.approx(2 / 3),
        "ties": 1,
        "paradigms": {"x": pytest.approx(1 / 3), "y": 1.0},
    }


def test_the_curve_shows_each_point_and_control():
    points = [(1e5, 50.0), (3.02e7, 60.0)]
    shown = draw_curves("BLiMP", "words", {"": points}, {"5-gram": 51.5})

    assert all(text in shown for text in ("100k words 50", "30.2M words 60", "5-gram 51.5")), shown
    assert shown.count("<circle") == 2
