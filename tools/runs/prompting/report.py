"""Scores of labelled rows, the majority baseline beside them, and a line for each row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from clozeline.tools.runs.prompting.answers import Answered
from clozeline.tools.runs.prompting.rows import PromptRow


def prompt_scores(answered: Sequence[Answered], labels: Sequence[str], train: Sequence[PromptRow]) -> dict[str, Any]:
    """Return the scores over the rows with a label, and what was counted.

    Args:
        answered: rows with the scores of their labels.
        labels: names, in the order of the template.
        train: labelled rows, from which the majority is taken; empty: it is that of the scored rows themselves.
    """
    fitting = [one for one in answered if one.scores]
    scored = [one for one in fitting if one.row.label is not None]
    truth = [str(one.row.label) for one in scored]
    predicted = [labels[one.best] for one in scored]
    source = [str(row.label) for row in train] or truth
    majority = max(labels, key=Counter(source).__getitem__)
    return {
        "n": len(scored),
        "unlabelled": len(fitting) - len(scored),
        "skipped": len(answered) - len(fitting),
        "truncated": 0,
        "dropped_demonstrations": sum(one.dropped for one in answered),
        "rows_with_dropped": sum(one.dropped > 0 for one in answered),
        "ties": sum(one.tied for one in fitting),
        "predicted": {label: sum(labels[one.best] == label for one in fitting) for label in labels},
        "metrics": metrics_of(truth, predicted, labels),
        "baselines": {
            "majority": {
                "label": majority,
                "of": "train" if train else "the rows themselves",
                "metrics": metrics_of(truth, [majority] * len(truth), labels),
            }
        },
    }


def metrics_of(truth: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> dict[str, float]:
    """Return accuracy, the mean F1 of the labels, and Matthews' correlation; nothing without rows."""
    if not truth:
        return {}
    return {
        "accuracy": float(accuracy_score(truth, predicted)),
        "macro_f1": float(f1_score(truth, predicted, labels=list(labels), average="macro", zero_division=0.0)),
        "matthews": float(matthews_corrcoef(truth, predicted)) if len({*truth, *predicted}) > 1 else 0.0,
    }


def prediction_lines(answered: Sequence[Answered], labels: Sequence[str]) -> Iterator[str]:
    """Yield a line of JSON for each row, in the order of the file."""
    for one in answered:
        yield json.dumps(
            {
                "uid": f"{one.row.uid:016x}",
                "label": one.row.label,
                "prediction": labels[one.best] if one.scores else None,
                "scores": dict(zip(labels, one.scores, strict=True)) if one.scores else None,
                "demonstrations": [f"{uid:016x}" for uid in one.demonstrations],
                "dropped": one.dropped,
            },
            ensure_ascii=False,
        )


def prompt_lines(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines for people."""
    yield (
        f"{scores['task']} by {scores['mode']}, score {scores['score']}, {scores['shots']} demonstrations "
        f"({scores['shot_selection']}, seed {scores['seed']}): {scores['n']:,} rows, step {scores['step']:,}"
    )
    majority = scores["baselines"]["majority"]
    for name, value in scores["metrics"].items():
        baseline = majority["metrics"][name]
        note = "  BELOW this baseline" if value < baseline else ""
        yield f"  {name:<12}{value:.4f}   majority '{majority['label']}' of {majority['of']} {baseline:.4f}{note}"
    counted = ("skipped", "unlabelled", "ties", "dropped_demonstrations")
    yield "  " + ", ".join(f"{scores[name]:,} {name.replace('_', ' ')}" for name in counted)
    for name, reasons in (("input", scores["refused"]), ("train", scores["refused_of_train"])):
        if reasons:
            yield f"  refused of {name}: " + ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
