"""The scores of a run on a split, as JSON and as lines, each beside its baselines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.evaluation.baselines import baseline_predictions, texts_of
from tools.evaluation.metrics import degenerate, score
from tools.evaluation.predictions import Predictions, answers_of, set_rows
from tools.evaluation.task_run import TaskRun

__all__ = ["lines_of", "scores_of", "text_of"]


def scores_of(opened: TaskRun, predictions: Predictions) -> dict[str, Any]:
    """Return everything that a score needs to be understood, as plain data."""
    facts, manifest = opened.facts, opened.shards.manifest
    answers = predictions.answers
    metrics = score(facts, answers, predictions.predicted)
    baselines = {name: score(facts, answers, found) for name, found in _baselines(opened).items()}
    return {
        "task": facts.name,
        "split": manifest.name.rpartition("/")[2],
        "n": len(answers),
        "metrics": metrics,
        "baselines": baselines,
        "below": {
            metric: [name for name, scores in baselines.items() if value < scores[metric]]
            for metric, value in metrics.items()
        },
        "degenerate": facts.head == "regression" and degenerate(answers, predictions.predicted),
        "seed": opened.seed,
        "step": opened.trained.step,
        "checkpoint": opened.checkpoint,
        "tokenizer": manifest.tokenizer.fingerprint,
        "set": opened.shards.digest,
        "truncated": manifest.config.get("truncated", 0),
        "skipped": dict(manifest.totals.skipped),
        "labels": list(facts.labels),
    }


def _baselines(opened: TaskRun) -> Mapping[str, NDArray[np.generic]]:
    train, rows, tokenizer = set_rows(opened.train), set_rows(opened.shards), opened.trained.tokenizer
    given = texts_of(train, tokenizer), answers_of(train, opened.facts)
    return baseline_predictions(opened.facts, given, texts_of(rows, tokenizer))


def text_of(scores: Mapping[str, Any]) -> str:
    """Return the only text of these scores: sorted keys, numbers in full."""
    return json.dumps(scores, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"


def lines_of(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines for people; a score below a baseline says so."""
    skipped = sum(scores["skipped"].values())
    yield (
        f"{scores['task']} {scores['split']}: {scores['n']:,} rows, {scores['truncated']:,} truncated, {skipped:,} "
        f"skipped; step {scores['step']:,}, seed {scores['seed']}"
    )
    for metric, value in scores["metrics"].items():
        others = ", ".join(f"{name} {found[metric]:.4f}" for name, found in scores["baselines"].items())
        below = scores["below"][metric]
        note = f"  BELOW the baseline {' and '.join(below)}" if below else ""
        note += "  (constant: no correlation is defined)" if scores["degenerate"] else ""
        yield f"  {metric:<22}{value:.4f}  (baselines: {others}){note}"
