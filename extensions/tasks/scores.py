"""Score a run on a split, by torch, as JSON and as lines, next to its baselines."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from clozeline.extensions.tasks.error_analysis import answer_table, collect_answers, record_lines
from clozeline.extensions.tasks.finetuning_scores import figures_of, metric_lines, notes_of
from clozeline.extensions.tasks.sets.splits import SHOWN_NOTES
from clozeline.extensions.tasks.task_run import TaskRun, open_task_run, set_rows
from clozeline.files import publish_json, publish_text
from clozeline.pipeline.rows import RowBatch
from clozeline.tools.registries import SCORING_KEYS
from clozeline.train.checkpoint.trained_model import read_config
from clozeline.train.logs.report import write_report


def scores_of(
    opened: TaskRun,
    rows: RowBatch,
    predicted: Mapping[int, object],
    metrics: Sequence[str] = (),
) -> dict[str, object]:
    """Return the scores of all rows with everything needed to interpret them, as data for JSON."""
    metadata = opened.facts
    manifest = opened.shards.manifest
    train = set_rows(opened.train)
    scored = opened.answer.score(opened.task, train, rows, predicted, metrics)
    baselines = {name: dict(values) for name, values in scored.baselines.items()}
    return {
        "task": metadata.name,
        "split": manifest.name.rpartition("/")[2],
        "n": scored.count,
        "unit": opened.answer.score_unit,
        "metrics": dict(scored.metrics),
        "baselines": baselines,
        "lower": sorted(scored.lower),
        "degenerate": scored.degenerate,
        "seed": opened.seed,
        **opened.trained.provenance,
        "set": opened.shards.digest,
        "truncated": manifest.config.get("truncated", 0),
        "skipped": dict(manifest.totals.skipped),
        "notes": {
            name: count
            for name, count in manifest.config.get("notes", {}).items()
            if name in SHOWN_NOTES
        },
        "labels": list(metadata.labels),
        **({"threshold": opened.threshold} if metadata.unanswerable else {}),
        **({} if scored.unparsable is None else {"unparsable": scored.unparsable}),
        **({"signatures": dict(scored.signatures)} if scored.signatures else {}),
    }


def score_run(run: Path, split: str, path: Path) -> None:
    """Score a finished run, and write its scores and predictions.

    Scores are JSON; each prediction is a line of NAME.predictions.jsonl.
    """
    opened = open_task_run(run, split)
    rows = set_rows(opened.shards)
    predicted = opened.answer.predict(opened.task, rows)
    stored = {"scores": scores_of(opened, rows, predicted), "facts": opened.facts.as_dict()}
    records = collect_answers(opened, rows, predicted)
    lines = record_lines(records)
    publish_text(path.with_suffix(".predictions.jsonl"), "".join(f"{line}\n" for line in lines))
    publish_json(path, stored)
    config = replace(read_config(run), output=run)
    write_report(config, figures_of(stored["scores"]), answer_table(opened.answer, records))


def to_json(scores: Mapping[str, object]) -> str:
    """Return scores as canonical JSON: sorted keys, full precision."""
    return json.dumps(scores, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"


def write_scores(text: str, output: Path | None, lines: Iterable[str] | None) -> None:
    """Write scores as JSON to a file, if given, and as lines to the console.

    Without lines, as JSON.
    """
    if output is not None:
        publish_text(output, text)
    sys.stdout.write(text if lines is None else "".join(f"{line}\n" for line in lines))


def lines_of(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield readable lines; scores below a baseline are marked."""
    skipped = sum(scores["skipped"].values())
    dropped = {"truncated": scores["truncated"], "skipped": skipped}
    counts = [f"{count:,} {what}" for what, count in dropped.items() if count]
    counts = [f"{scores['n']:,} {scores['unit']}", *counts, *notes_of(scores)]
    yield (
        f"{scores['task']} {scores['split']}: {', '.join(counts)}; step {scores['step']:,}, seed "
        f"{scores['seed']}"
    )
    yield from metric_lines([scores])

    for name in SCORING_KEYS.available():
        if used := scores.get(name):
            yield f"  {name:<22}{SCORING_KEYS.load_class(name).describe(used)}"
