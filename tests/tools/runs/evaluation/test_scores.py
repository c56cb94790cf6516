from __future__ import annotations

import json

from clozeline.tools.runs.evaluation.scores import lines_of, to_json

SCORES = {
    "task": "toy", "split": "dev", "n": 10, "metrics": {"accuracy": 0.7, "f1": 0.9},
    "baselines": {"majority": {"accuracy": 0.5, "f1": 0.0}, "words": {"accuracy": 0.8, "f1": 0.9}},
    "below": {"accuracy": ["words"], "f1": []}, "degenerate": False, "seed": 3, "step": 20, "truncated": 4,
    "skipped": {"fields": 2, "bad_label": 1}, "unit": "texts", "notes": {},
}  # fmt: skip


def test_a_score_below_a_baseline_is_printed_as_such() -> None:
    head, accuracy, f1 = lines_of(SCORES)
    assert head == "toy dev: 10 texts, 4 truncated, 3 skipped; step 20, seed 3"
    assert " ".join(accuracy.split()) == (
        "accuracy 0.7000 (baselines: majority 0.5000, words 0.8000) BELOW the baseline words"
    )
    assert "BELOW" not in f1


def test_a_constant_prediction_is_said() -> None:
    assert "constant: no correlation is defined" in list(lines_of({**SCORES, "degenerate": True}))[1]


def test_the_text_is_one_line_with_sorted_keys() -> None:
    text = to_json(SCORES)
    assert json.loads(text) == SCORES
    assert text == to_json(dict(reversed(SCORES.items())))
    assert text.count("\n") == 1
