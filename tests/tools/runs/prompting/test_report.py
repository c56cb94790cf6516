"""Metrics and counts by hand, and the words for people."""

from __future__ import annotations

import json
import math

import pytest

from clozeline.tools.runs.prompting.answers import Answered
from clozeline.tools.runs.prompting.report import metrics_of, prediction_lines, prompt_lines, prompt_scores
from clozeline.tools.runs.prompting.rows import PromptRow

LABELS = ["a", "b"]
ANSWERED = [
    Answered(PromptRow(1, {}, "a"), (-1.0, -2.0), (7, 8), 0),
    Answered(PromptRow(2, {}, "b"), (-1.0, -2.0), (7,), 1),
    Answered(PromptRow(3, {}, "b"), (-3.0, -3.0), (), 2),
    Answered(PromptRow(4, {}, None), (-3.0, -1.0), (), 0),
    Answered(PromptRow(5, {}, "a"), (), (), 2),
    Answered(PromptRow(6, {}, "b"), (-3.0, -2.0), (), 0),
]


def test_counts_and_metrics() -> None:
    """Of the rows 1, 2, 3 and 6 the first and the last are right; the third is a tie, which the first label has."""
    found = prompt_scores(ANSWERED, LABELS, [])
    assert {name: found[name] for name in ("n", "unlabelled", "skipped", "truncated", "ties")} == {
        "n": 4, "unlabelled": 1, "skipped": 1, "truncated": 0, "ties": 1,
    }  # fmt: skip
    assert (found["dropped_demonstrations"], found["rows_with_dropped"]) == (5, 3)
    assert found["predicted"] == {"a": 3, "b": 2}
    assert found["metrics"]["accuracy"] == 0.5
    assert found["metrics"]["macro_f1"] == pytest.approx((0.5 + 0.5) / 2)
    majority = found["baselines"]["majority"]
    assert (majority["label"], majority["metrics"]["accuracy"]) == ("b", 0.75)
    train = [PromptRow(9, {}, "a")]
    assert prompt_scores(ANSWERED, LABELS, train)["baselines"]["majority"]["metrics"]["accuracy"] == 0.25
    assert metrics_of([], [], LABELS) == {}
    assert metrics_of(["a", "b", "a", "b"], ["a", "b", "b", "b"], LABELS)["matthews"] == pytest.approx(3**-0.5)


def test_a_score_below_the_majority_is_printed_as_such() -> None:
    scores = {
        "task": "polarity", "mode": "causal", "score": "sum", "shots": 2, "shot_selection": "fixed", "seed": 0,
        "step": 3, "refused": {"no_text": 2}, "refused_of_train": {}, **prompt_scores(ANSWERED, LABELS, []),
    }  # fmt: skip
    text = "\n".join(prompt_lines(scores))
    assert "accuracy    0.5000   majority 'b' of the rows themselves 0.7500  BELOW this baseline" in text
    assert "1 skipped, 1 unlabelled, 1 ties, 5 dropped demonstrations" in text
    assert "refused of input: 2 no_text" in text


def test_a_line_for_each_row() -> None:
    lines = [json.loads(line) for line in prediction_lines(ANSWERED, LABELS)]
    assert [line["prediction"] for line in lines] == ["a", "a", "a", "b", None, "b"]
    assert lines[1] == {
        "uid": "0000000000000002", "label": "b", "prediction": "a", "scores": {"a": -1.0, "b": -2.0},
        "probabilities": pytest.approx({"a": 1 / (1 + math.exp(-1)), "b": 1 / (1 + math.exp(1))}),
        "demonstrations": ["0000000000000007"], "dropped": 1,
    }  # fmt: skip
    assert lines[4]["scores"] is None
