"""Score fine-tuned runs of one task with several seeds, and print tables of the scores."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import parse_json, publish_text
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.sealed_json import seal, unseal
from clozeline.tools.experiments.multirun.comparison import ScoredRun, compare_runs, mean_and_deviation
from clozeline.tools.runs.evaluation.task_run import open_task_run

_SCORES: Final = "scores"


def score_run(run: Path, split: str, path: Path) -> None:
    """Score a finished run, and write the scores as JSON, and each prediction to NAME.predictions.jsonl."""
    from clozeline.tools.runs.evaluation.error_analysis import answered_records, record_lines
    from clozeline.tools.runs.evaluation.predictions import collect_predictions, set_rows
    from clozeline.tools.runs.evaluation.scores import predict_task_share, score_shares, scores_of

    opened = open_task_run(run, split)
    rows = set_rows(opened.shards)
    shares = [predict_task_share(opened, rows)]
    scored = score_shares(opened, rows, shares)
    predictions = scored.predictions or (None if scored.units else collect_predictions(shares, rows, opened.facts))
    plain = {
        "scores": scores_of(opened, scored),
        "facts": opened.facts.plain(),
        "answers": [] if predictions is None else predictions.answers.tolist(),
        "predicted": [] if predictions is None else predictions.predicted.tolist(),
        "units": dict(scored.units),
    }
    records = answered_records(opened, rows, shares[0] if opened.facts.head == "lm" else None)
    publish_text(path.with_suffix(".predictions.jsonl"), record_lines(records))
    publish_text(path, json.dumps(seal(plain), sort_keys=True) + "\n")


def scores_path(folder: Path, split: str, seed: int) -> Path:
    """Return the file of a seed's scores; splits other than dev have their own folders."""
    return folder / _SCORES / ("" if split == "dev" else split) / f"seed-{seed}.json"


def read_by_split(folder: Path) -> dict[str, list[ScoredRun]]:
    """Return the scores of all seeds in a folder on dev, and on each test set by name."""
    further = sorted(path.name for path in (folder / _SCORES).glob("test_*"))
    return {"dev": read_scored(folder)} | {name.removeprefix("test_"): read_scored(folder, name) for name in further}


def read_scored(folder: Path, split: str = "dev") -> list[ScoredRun]:
    """Return the scores of all seeds in a folder on a split, by seed."""
    scores, runs = scores_path(folder, split, 0).parent, []
    for path in sorted(scores.glob("seed-*.json")):
        try:
            plain = unseal(parse_json(path.read_bytes()), path)
        except (OSError, ValueError) as error:
            reason = f"is damaged ({error}); remove it, and the same command scores that seed again"
            raise IntegrityError(f"{path}: {reason}") from error
        task, answers, predicted = TaskFacts.from_plain(plain["facts"]), plain["answers"], plain["predicted"]
        units = {name: np.array(counts) for name, counts in plain["units"].items()}
        runs.append(ScoredRun(plain["scores"], task, np.array(answers), np.array(predicted), units))
    if not runs:
        raise ConfigurationError(f"{folder}: expected an output of clozeline finetune with scores, got none")
    if len({run.scores["set"] for run in runs}) > 1:
        raise ConfigurationError(f"{scores}: the seeds were scored on different sets; remove the old ones")
    return sorted(runs, key=lambda run: int(run.scores["seed"]))


def table_lines(named: Sequence[tuple[str, Sequence[ScoredRun]]]) -> Iterator[str]:
    """Yield a table of groups: mean ± deviation over seeds of each metric, and baselines; lower scores are marked."""
    from clozeline.tools.runs.evaluation.scores import notes_of, unit_of

    for name, runs in named:
        scores = [run.scores for run in runs]
        first = scores[0]
        seeds = ", ".join(str(run_scores["seed"]) for run_scores in scores)
        unparsable = [run_scores["unparsable"] for run_scores in scores if "unparsable" in run_scores]
        noted = {**first, "unparsable": fmean(unparsable)} if unparsable else first
        counts = ", ".join((f"{first['n']:,} {unit_of(runs[0].facts)}", *notes_of(noted)))
        yield f"{name}: {first['task']} {first['split']}, {counts}, {len(runs)} runs (seeds {seeds})"
        for metric in first["metrics"]:
            mean, deviation = mean_and_deviation([run_scores["metrics"][metric] for run_scores in scores])
            shown = f"{mean:.4f}" + (" (one run)" if deviation is None else f" ± {deviation:.4f}")
            others = {baseline: baseline_scores[metric] for baseline, baseline_scores in first["baselines"].items()}
            below = [baseline for baseline, value in others.items() if mean < value]
            yield (
                f"  {metric:<22}{shown:<20}  baselines: "
                + ", ".join(f"{baseline} {value:.4f}" for baseline, value in others.items())
                + (f"  BELOW {' and '.join(below)}" if below else "")
            )


def matrix_lines(named: Sequence[tuple[str, Mapping[str, Sequence[ScoredRun]]]]) -> Iterator[str]:
    """Yield a table of folders by sets: the mean over seeds of the first metric, and the gap of dev to the others.

    For runs trained on one language, dev is that language, and the gap is the loss on the others (XTREME, arXiv
    2003.11080). A dash marks a set that a folder was not scored on.
    """
    sets = list(dict.fromkeys(name for _, splits in named for name in splits))
    width = max(len(name) for name, _ in named)
    metric = next(iter(named[0][1]["dev"][0].scores["metrics"]))
    yield f"{metric:<{width}}  " + "".join(f"{name:>9}" for name in (*sets, "gap"))
    for name, splits in named:
        means = {
            split: mean_and_deviation([run.scores["metrics"][metric] for run in runs])[0]
            for split, runs in splits.items()
        }
        others = [mean for split, mean in means.items() if split != "dev"]
        cells = [f"{means[split]:>9.4f}" if split in means else f"{'-':>9}" for split in sets]
        gap = f"{means['dev'] - fmean(others):>9.4f}" if others else f"{'-':>9}"
        yield f"{name:<{width}}  " + "".join((*cells, gap))


def comparison_lines(named: Sequence[tuple[str, Sequence[ScoredRun]]]) -> Iterator[str]:
    """Yield each later group against the first: difference of means, 95 % interval, one-sided p."""
    from clozeline.tools.runs.evaluation.scores import unit_of

    (base, first), *others = named
    for name, runs in others:
        resampled = "sentences" if first[0].facts.head == "tagging" else unit_of(first[0].facts)
        for metric in first[0].scores["metrics"]:
            gap = compare_runs(runs, first, metric)
            yield (
                f"{name} - {base}: {metric} {gap.difference:+.4f} [{gap.low:+.4f}, {gap.high:+.4f}], one-sided p "
                f"{gap.p:.3f} over {resampled}{' and seeds' if gap.seeds > 1 else ', one seed'}"
            )
