"""Score labeled rows next to the majority baseline, and write one line per row."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, matthews_corrcoef

from clozeline.extensions.evaluation.prompting.answers import Answered
from clozeline.extensions.evaluation.prompting.template import PromptRow
from clozeline.extensions.tasks.score_notes import note_if_worse
from clozeline.extensions.tasks.task_heads._metrics import macro_f1


def prompt_scores(
    answered: Sequence[Answered], labels: Sequence[str], train: Sequence[PromptRow]
) -> dict[str, object]:
    """Return the scores over the rows with a label.

    The majority label is counted in `train`, or in the rows.
    """
    fitting = [answer for answer in answered if answer.scores]
    scored = [answer for answer in fitting if answer.row.label is not None]
    truth = [str(answer.row.label) for answer in scored]
    predicted = [labels[answer.best] for answer in scored]
    source = [str(row.label) for row in train] or truth
    majority = max(labels, key=Counter(source).__getitem__)
    baseline = {"label": majority, "of": "train" if train else "the rows themselves"}
    return {
        "n": len(scored),
        "unlabeled": len(fitting) - len(scored),
        "skipped": len(answered) - len(fitting),
        "truncated": 0,
        "dropped_demonstrations": sum(answer.dropped for answer in answered),
        "rows_with_dropped": sum(answer.dropped > 0 for answer in answered),
        "ties": sum(answer.is_tied for answer in fitting),
        "predicted": {
            label: sum(labels[answer.best] == label for answer in fitting) for label in labels
        },
        "metrics": metrics_of(truth, predicted),
        "baselines": {
            "majority": {**baseline, "metrics": metrics_of(truth, [majority] * len(truth))}
        },
    }


def metrics_of(truth: Sequence[str], predicted: Sequence[str]) -> dict[str, float]:
    """Return accuracy, macro F1 over the labels that occur, and Matthews' correlation.

    Nothing without rows.
    """
    if not truth:
        return {}
    return {
        "accuracy": float(accuracy_score(truth, predicted)),
        "macro_f1": macro_f1(np.array(truth), np.array(predicted)),
        "matthews": float(matthews_corrcoef(truth, predicted))
        if len({*truth, *predicted}) > 1
        else 0.0,
    }


def prediction_lines(answered: Sequence[Answered], labels: Sequence[str]) -> Iterator[str]:
    """Yield one JSON line per row, in file order."""
    for answer in answered:
        yield json.dumps(
            {
                "uid": f"{answer.row.uid:016x}",
                "label": answer.row.label,
                "prediction": labels[answer.best] if answer.scores else None,
                "scores": dict(zip(labels, answer.scores, strict=True)) if answer.scores else None,
                "probabilities": dict(zip(labels, answer.probabilities, strict=True))
                if answer.scores
                else None,
                "demonstrations": [f"{uid:016x}" for uid in answer.demonstrations],
                "dropped": answer.dropped,
            },
            ensure_ascii=False,
        )


def prompt_lines(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield readable lines."""
    yield (
        f"{scores['task']} by {scores['mode']}, score {scores['score']}, {scores['shots']} "
        f"demonstrations ({scores['shot_selection']}, seed {scores['seed']}): {scores['n']:,} "
        f"rows, step {scores['step']:,}"
    )

    majority = scores["baselines"]["majority"]

    for name, value in scores["metrics"].items():
        baseline = majority["metrics"][name]
        note = note_if_worse(value, baseline, "higher")
        yield (
            f"  {name:<12}{value:.4f}   majority '{majority['label']}' of {majority['of']} "
            f"{baseline:.4f}{note}"
        )

    counted = ("skipped", "unlabeled", "ties", "dropped_demonstrations")
    yield "  " + ", ".join(f"{scores[name]:,} {name.replace('_', ' ')}" for name in counted)

    for name, reasons in (("input", scores["refused"]), ("train", scores["refused_of_train"])):
        if reasons:
            yield f"  refused of {name}: " + ", ".join(
                f"{count:,} {reason}" for reason, count in reasons.items()
            )
