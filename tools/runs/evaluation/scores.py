"""Score a run on a split, as JSON and as lines, next to its baselines."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from clozeline.files import publish_text
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tasks.splits import SHOWN_NOTES
from clozeline.tools.runs.evaluation.answer_scores import answer_scores, read_spans
from clozeline.tools.runs.evaluation.baselines import baseline_predictions, choice_baselines, texts_of
from clozeline.tools.runs.evaluation.generation_scores import generate_share, text_scores
from clozeline.tools.runs.evaluation.group_scores import GROUPED
from clozeline.tools.runs.evaluation.metrics import Predictions, Scored, degenerate, score
from clozeline.tools.runs.evaluation.pair_scores import pair_baselines, pair_share
from clozeline.tools.runs.evaluation.predictions import (
    Read,
    answers_of,
    collect_predictions,
    merge_shares,
    predict_share,
    read_several,
    set_rows,
)
from clozeline.tools.runs.evaluation.tag_scores import read_tags, tag_scores
from clozeline.tools.runs.evaluation.task_run import TaskRun


def predict_task_share(opened: TaskRun, rows: Rows, rank: int = 0, size: int = 1) -> dict[int, Any]:
    """Return the model's predictions for one process's share of a split, by row index."""
    facts = opened.facts
    if facts.head == "lm":
        return generate_share(opened, rows, rank, size)
    if facts.head == "similarity":
        return pair_share(opened, rows, rank, size)
    reads: dict[str, Read] = {"tagging": partial(read_tags, facts=facts), "span": read_spans}
    read = read_several if facts.multi_label else reads.get(facts.head)
    return predict_share(opened.trained.model, opened.shards, rows, opened.head, rank, size, read)


def score_shares(opened: TaskRun, rows: Rows, shares: Sequence[Mapping[int, Any]]) -> Scored:
    """Return the metrics of a model and of baselines, given the predictions of each process."""
    facts = opened.facts
    if facts.head == "tagging":
        return tag_scores(facts, set_rows(opened.train), rows, merge_shares(shares, len(rows)))
    if facts.head == "lm":
        languages = opened.shards.manifest.languages
        return text_scores(facts, set_rows(opened.train), rows, merge_shares(shares, len(rows)), *languages[:1])
    if facts.head == "span":
        return answer_scores(facts, rows, merge_shares(shares, len(rows)), opened.threshold)
    return _score_answers(opened, rows, collect_predictions(shares, rows, facts))


def scores_of(opened: TaskRun, scored: Scored) -> dict[str, Any]:
    """Return the scores with everything needed to interpret them, as plain data."""
    facts, manifest = opened.facts, opened.shards.manifest
    metrics, baselines = dict(scored.metrics), {name: dict(values) for name, values in scored.baselines.items()}
    return {
        "task": facts.name,
        "split": manifest.name.rpartition("/")[2],
        "n": scored.count,
        "unit": unit_of(facts),
        "metrics": metrics,
        "baselines": baselines,
        "below": {
            metric: [name for name, scores in baselines.items() if value < scores[metric]]
            for metric, value in metrics.items()
        },
        "degenerate": scored.degenerate,
        "seed": opened.seed,
        "step": opened.trained.step,
        "checkpoint": opened.checkpoint,
        "tokenizer": manifest.tokenizer.fingerprint,
        "set": opened.shards.digest,
        "truncated": manifest.config.get("truncated", 0),
        "skipped": dict(manifest.totals.skipped),
        "notes": {name: count for name, count in manifest.config.get("notes", {}).items() if name in SHOWN_NOTES},
        "labels": list(facts.labels),
        **({} if scored.unparsable is None else {"unparsable": scored.unparsable}),
        **({"signatures": dict(scored.signatures)} if scored.signatures else {}),
    }


def _score_answers(opened: TaskRun, rows: Rows, predictions: Predictions) -> Scored:
    facts, answers = opened.facts, predictions.answers
    train, tokenizer = set_rows(opened.train), opened.trained.tokenizer
    if facts.head == "similarity":
        baselines = pair_baselines(opened, rows)
    elif facts.head == "multiple_choice":
        baselines = choice_baselines(train, rows, tokenizer)
    else:
        fitted_on = texts_of(train, tokenizer), answers_of(train, facts)
        baselines = baseline_predictions(facts, fitted_on, texts_of(rows, tokenizer))
    grouped = next((GROUPED[name] for name in facts.metrics if name in GROUPED), None)

    def metrics(predicted: NDArray[Any]) -> dict[str, float]:
        if grouped is None:
            return score(facts, answers, predicted)
        return grouped(answers, predicted, rows.fixed["document_uid"])

    predicted, correlated = predictions.predicted, facts.head in ("regression", "similarity")
    return Scored(
        len(answers),
        metrics(predicted),
        {name: metrics(baseline) for name, baseline in baselines.items()},
        grouped is None and correlated and facts.metrics != ("accuracy",) and degenerate(answers, predicted),
    )


def to_json(scores: Mapping[str, Any]) -> str:
    """Return scores as canonical JSON: sorted keys, full precision."""
    return json.dumps(scores, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"


def write_scores(text: str, output: Path | None, lines: Iterable[str] | None) -> None:
    """Write scores as JSON to a file, if given, and as lines to the console; without lines, as JSON."""
    if output is not None:
        publish_text(output, text)
    sys.stdout.write(text if lines is None else "".join(f"{line}\n" for line in lines))


def unit_of(facts: TaskFacts) -> str:
    """Return the name of what a score counts: words, questions, pairs, texts."""
    named = {"tagging": "words", "span": "questions", "similarity": "pairs", "multiple_choice": "questions"}
    return named.get(facts.head, "pairs" if facts.texts > 1 else "texts")


def notes_of(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield caveats of a score: unparsable outputs, rows of train, contradicting labels."""
    if "unparsable" in scores:
        yield f"{scores['unparsable']:,g} unparsable"
    if "threshold" in scores:
        yield f"threshold of no answer {scores['threshold']:.3f}"
    yield from (f"{count:,} {name.replace('_', ' ')}" for name, count in scores.get("notes", {}).items())


def lines_of(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield readable lines; scores below a baseline are marked."""
    unit, skipped = scores.get("unit", "rows"), sum(scores["skipped"].values())
    counts = [f"{scores['truncated']:,} truncated", f"{skipped:,} skipped", *notes_of(scores)]
    yield (
        f"{scores['task']} {scores['split']}: {scores['n']:,} {unit}, {', '.join(counts)}; step {scores['step']:,}, "
        f"seed {scores['seed']}"
    )
    signed = scores.get("signatures", {})
    for metric, value in scores["metrics"].items():
        others = ", ".join(f"{name} {baseline[metric]:.4f}" for name, baseline in scores["baselines"].items())
        below = scores["below"][metric]
        note = f"  BELOW the baseline {' and '.join(below)}" if below else ""
        note += f"  ({signed[metric]})" if metric in signed else ""
        note += "  (constant: no correlation is defined)" if scores["degenerate"] else ""
        yield f"  {metric:<22}{value:.4f}  (baselines: {others}){note}"
